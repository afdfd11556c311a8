-- Before this stand OLDEST and FORMAT: the first and the last format of a session's hash that these
-- scripts know. They write the last.
local function readable(format)
  local number = tonumber(format)
  return number and number >= OLDEST and number <= tonumber(FORMAT)
end

-- Why a session cannot be worked on, or nil: by its fields `f` (format) and `del` (when it was
-- deleted, and how it ended).
local function refused(format, deleted)
  if not format then return {'notfound'} end
  if not readable(format) then return {'format', format} end
  if deleted then return {'terminal', deleted} end
end

-- In the field `qw` of a session that was quarantined because acknowledged writes of it are lost.
local LOST = 'lost'

-- Why a session is quarantined, by its fields `q` and `qw`: 0 for not at all, 1 for five claims
-- without progress, 2 for writes that are lost.
local function quarantine(q, why)
  if q ~= '1' then return 0 end
  if why == LOST then return 2 end
  return 1
end

-- How often somebody has accepted that acknowledged writes are lost, by the field `al`, which is
-- there since the first time.
local function accepted(losses)
  return tonumber(losses or 0)
end

local function limit(what, allowed)
  return {'limit', what, allowed}
end

-- A whole number as text; Redis would take longer for it.
local function text(number)
  return string.format('%d', number)
end

-- Publishes a hint. A hint may be lost, so a user without rights to the channel loses all of them, and
-- what the script wrote stands. An error here would answer that nothing was written.
local function hint(channel, message)
  redis.pcall('SPUBLISH', channel, message)
end

-- The field `cl` counts claims without progress. It is negative from a claim until its owner first
-- writes or renews: that claim does not count yet, because its answer may be lost.
local function counted(claims)
  if claims < 0 then return -claims - 1 end
  return claims
end

-- Renews a lease. One that had run out may be in `newer`: sessions that claimers met and could not read,
-- by what they need and then by the time since when they can be claimed. Each is in one queue.
local function keep_leased(leases, newer, ends, member)
  if redis.call('ZADD', leases, text(ends), member) == 1 then redis.call('ZREM', newer, member) end
end

-- The name of an event's field: 'm' if more of the same transition follow, else 'e', and the event's
-- checksum (four bytes). `sums` has the checksums of several events without their places; the place
-- is added here, where the number is known.
local function name(letter, sums, i, seq)
  local place = 2 * seq
  if letter == 'm' then place = place + 1 end
  local sum = struct.unpack('<I4', sums, 4 * i - 3)
  return letter .. struct.pack('<I4', (sum + place) % 4294967296)
end

-- Appends one event; its number is its place in the stream.
local function append(journal, seq, field, event)
  redis.call('XADD', journal, seq .. '-0', field, event)
end

-- Fields for listings: `no` has the notes of the owner (tokens, cost, open questions, agent), `ch` the
-- tenth of a second of the last change, `as` 1 while the session has open questions, and `rk` its place
-- in the order of creation. `tk` has epoch, version and operation of the last command that took the lease.
-- `nd` is the level of an owner that can read the session; it never falls.

-- Keeps the order of last changes: to a tenth of a second, so that a session at work changes its place
-- there a few times a second only. `was` is the session's field `ch`.
local function changed(set, session, member, was, now)
  local tenth = text(math.floor(now / 100))
  if was ~= tenth then
    redis.call('HSET', session, 'ch', tenth)
    redis.call('ZADD', set, tenth, member)
  end
end

-- Queues a session that nobody owns: now, or earlier. What is in `newer` is due already.
local function enqueue(due, newer, member, now)
  if not redis.call('ZSCORE', newer, member) then redis.call('ZADD', due, 'LT', now, member) end
end

-- Keeps what a session waits for that no resource has, in its field `wf` (no field for nothing), and since when,
-- as its place in `waiting`. It stays there while an owner works: a claim that finds nothing costs it no place.
local function waits(waiting, session, member, needs, now)
  if needs == '' then
    redis.call('ZREM', waiting, member)
    redis.call('HDEL', session, 'wf')
  else
    redis.call('ZADD', waiting, text(now), member)
    redis.call('HSET', session, 'wf', needs)
  end
end

-- Whether a session's notes have open questions.
local function asks(notes)
  return not string.find(notes, '^%d+ %d+ %- ')
end

-- The journal lacks an event.
local function gap(seq)
  return {'gap', seq}
end
