-- KEYS: 1 session, 2 journal, 3 leases, 4 due, 5 followers, 6 work, 7 changed, 8 asking, 9 newer,
--       10 waiting and, if they are needed, 11 memory, 12 checkpoints, 13 their numbers
-- ARGV: 1 member, 2 process, 3 owner, 4 epoch, 5 version, 6 operation, 7 seen_seq, 8 status,
--       9 handled_through, 10 title, 11 lease_ms, 12 park ('' for no, 'idle', or when due),
--       13 whether events are progress, 14 bytes of the events, 15 journal_events,
--       16 journal_bytes, 17 memory keys allowed, 18 memory bytes allowed,
--       19 number of the checkpoint (0 for none), 20 the name under which it is stored ('' for not),
--       21 names of those to remove then, separated by blanks, 22 count of memory changes, 23 count of events, 24 their checksums,
--       25 notes for listings, 26 what the session needs, 27 what it waits for, 28… events, then changes of
--       memory
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'ver', 'seq', 'jb', 'flo', 'cmd', 'op', 'of',
  'ep', 'ow', 'le', 'cl', 'mk', 'mb', 'al', 'ch', 'as', 'nd', 'wf')
local bad = refused(s[1], s[2])
if bad then
  -- The checkpoint may have been stored after the session was deleted.
  if ARGV[20] ~= '' and bad[1] ~= 'format' then redis.call('UNLINK', KEYS[12]) end
  return bad
end
local now, seen = clock(), tonumber(ARGV[7])
local version, last = tonumber(s[3]), tonumber(s[4])

-- What others appended after the caller's last look and up to `to`: the names of the fields together,
-- and each event.
local function with_others(answer, to)
  local base, names = #answer + 1, {}
  answer[base] = ''
  if seen < to then
    local entries = redis.call('XRANGE', KEYS[2], (seen + 1) .. '-0', to .. '-0')
    for i = 1, #entries do
      names[i], answer[base + i] = entries[i][2][1], entries[i][2][2]
    end
    answer[base] = table.concat(names)
  end
  return answer
end

local owned = s[10] == ARGV[4] and s[11] == ARGV[3] and s[11] ~= ''
if version == tonumber(ARGV[5]) + 1 and s[8] == ARGV[6] then
  local ends = -1
  if owned then ends = tonumber(s[12]) end
  return with_others({'dup', now, tonumber(s[9]), ends, accepted(s[16]), last, tonumber(s[5])},
    tonumber(s[9]) - 1)
end
-- A caller that has made more transitions than there are: they were lost.
if version < tonumber(ARGV[5]) then return {'back', tonumber(ARGV[5]), version} end
if not owned then return {'fenced'} end
local handled, through = tonumber(ARGV[9]), tonumber(ARGV[19])
if version ~= tonumber(ARGV[5]) or seen < tonumber(s[6]) or seen > last or handled > seen
  or through > seen then
  return {'conflict'}
end
local count, changes = tonumber(ARGV[23]), tonumber(ARGV[22])
local events, bytes = last + count, s[5] + ARGV[14]
if count > 0 then
  if events > tonumber(ARGV[15]) then return limit('journal_events', ARGV[15]) end
  if bytes > tonumber(ARGV[16]) then return limit('journal_bytes', ARGV[16]) end
end
local keys, size
if changes > 0 then
  keys, size, bad = planned(KEYS[11], tonumber(s[14]), tonumber(s[15]), 28 + count, changes,
    tonumber(ARGV[17]), tonumber(ARGV[18]))
  if bad then return bad end
end

local answer = with_others({'ok', now, last + 1, -1, accepted(s[16]), events, bytes}, last)
for i = 1, count do
  append(KEYS[2], last + i, name(i < count and 'm' or 'e', ARGV[24], i, last + i), ARGV[27 + i])
end
if changes > 0 then change(KEYS[11], 28 + count, changes, now) end
-- A server that took over may not have it. That costs time only.
if ARGV[20] ~= '' and redis.call('HEXISTS', KEYS[12], ARGV[20]) == 1 then
  redis.call('ZADD', KEYS[13], through, ARGV[20])
  for gone in string.gmatch(ARGV[21], '%S+') do
    redis.call('HDEL', KEYS[12], gone)
    redis.call('ZREM', KEYS[13], gone)
  end
end
-- A command that is not handled yet keeps the lease.
local park = ARGV[12] ~= '' and tonumber(s[7]) <= handled
local ends, claims = 0, math.abs(s[13])
if park then claims = math.max(claims - 1, 0) else ends = now + ARGV[11] end
if ARGV[13] == '1' then claims = 0 end
-- Most transitions change no more than this.
redis.call('HSET', KEYS[1], 'up', text(now), 'st', ARGV[8], 'ver', text(version + 1),
  'seq', text(events), 'jb', text(bytes), 'hnd', ARGV[9], 'flo', text(events), 'op', ARGV[6],
  'of', text(last + 1), 'le', text(ends), 'ti', ARGV[10], 'no', ARGV[25])
changed(KEYS[7], KEYS[1], ARGV[1], s[17], now)
if asks(ARGV[25]) then
  if s[18] ~= '1' then
    redis.call('ZADD', KEYS[8], redis.call('HGET', KEYS[1], 'rk') or 0, ARGV[1])
    redis.call('HSET', KEYS[1], 'as', 1)
  end
elseif s[18] == '1' then
  redis.call('ZREM', KEYS[8], ARGV[1])
  redis.call('HSET', KEYS[1], 'as', 0)
end
if ARGV[27] ~= (s[20] or '') then waits(KEYS[10], KEYS[1], ARGV[1], ARGV[27], now) end
if last > tonumber(s[6]) then redis.call('HSET', KEYS[1], 'uns', '0') end
if tonumber(ARGV[26]) > tonumber(s[19]) then redis.call('HSET', KEYS[1], 'nd', ARGV[26]) end
if claims ~= tonumber(s[13]) then redis.call('HSET', KEYS[1], 'cl', claims) end
if changes > 0 then redis.call('HSET', KEYS[1], 'mk', keys, 'mb', size) end
if not park then
  answer[4] = ends
  keep_leased(KEYS[3], KEYS[9], ends, ARGV[1])
else
  redis.call('HSET', KEYS[1], 'ow', '')
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZREM', KEYS[9], ARGV[1])
  if ARGV[12] ~= 'idle' then
    redis.call('ZADD', KEYS[4], ARGV[12], ARGV[1])
    -- Claimers look each second by themselves.
    if tonumber(ARGV[12]) < now + 1000 then hint(KEYS[6], ARGV[2]) end
  end
end
if count > 0 then hint(KEYS[5], ARGV[2] .. ' ' .. events) end
return answer
