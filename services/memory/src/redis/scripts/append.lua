-- KEYS: 1 session, 2 journal, 3 requests, 4 due, 5 followers, 6 work, 7 changed, 8 leases, 9 newer
-- ARGV: 1 member, 2 process, 3 request id, 4 digest, 5 event, 6 journal_events,
--       7 journal_bytes, 8 unseen_bytes, 9 '1' to answer a repeat only, 10 the event's checksum,
--       11 who takes the lease ('' for none), 12 lease_ms, 13 operation,
--       14 claims without progress that set a session aside, 15 what the command needs,
--       16 the level of who takes the lease
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq', 'jb', 'uns', 'ow', 'le', 'q', 'al', 'ch',
  'ep', 'ver', 'cl', 'tk', 'nd')
local bad = refused(s[1], s[2])
if bad then return bad end
local aside, losses, now = tonumber(s[8]), accepted(s[9]), clock()
local known = redis.call('HGET', KEYS[3], ARGV[3])
if known then
  local space = string.find(known, ' ', 1, true)
  if string.sub(known, space + 1) ~= ARGV[4] then return {'mismatch'} end
  local answer = {'dup', tonumber(string.sub(known, 1, space - 1)), aside, losses, now, -1, -1}
  -- The very attempt that took the lease, which is the caller's, and no transition came since.
  if ARGV[11] ~= '' and s[6] == ARGV[11] and s[14] == s[11] .. ' ' .. s[12] .. ' ' .. ARGV[13] then
    answer[6], answer[7] = tonumber(s[11]), tonumber(s[7])
  end
  return answer
end
if ARGV[9] == '1' then return {'ok', 0, aside, losses, now, -1, -1, 'nobody', ''} end
local seq, bytes, unseen = s[3] + 1, s[4] + #ARGV[5], s[5] + #ARGV[5]
local needs = math.max(tonumber(s[15]), tonumber(ARGV[15]))
bad = no_room(seq, bytes, unseen, s[6], 6)
if bad then return bad end

append(KEYS[2], seq, name('e', ARGV[10], 1, seq), ARGV[5])
redis.call('HSET', KEYS[3], ARGV[3], seq .. ' ' .. ARGV[4])
redis.call('HSET', KEYS[1], 'up', now, 'seq', seq, 'jb', bytes, 'uns', unseen, 'cmd', seq,
  'nd', needs)
changed(KEYS[7], KEYS[1], ARGV[1], s[10], now)
hint(KEYS[5], ARGV[2] .. ' ' .. seq)
local wake, owner, epoch, ends = 'nobody', s[6], -1, -1
local runs = owner ~= '' and tonumber(s[7]) > now
if aside == 0 then
  local claims = counted(tonumber(s[13]))
  if ARGV[11] ~= '' and not runs and claims < tonumber(ARGV[14]) and needs <= tonumber(ARGV[16]) then
    -- As a claim does.
    epoch, ends = s[11] + 1, now + ARGV[12]
    redis.call('ZADD', KEYS[8], ends, ARGV[1])
    redis.call('ZREM', KEYS[4], ARGV[1])
    redis.call('ZREM', KEYS[9], ARGV[1])
    redis.call('HSET', KEYS[1], 'ow', ARGV[11], 'ep', epoch, 'le', ends, 'cl', -(claims + 1),
      'flo', seq, 'uns', 0, 'tk', text(epoch) .. ' ' .. s[12] .. ' ' .. ARGV[13])
  elseif runs then
    wake = 'owner'
    hint(KEYS[6], ARGV[2] .. ' ' .. ARGV[1] .. ' ' .. owner)
  else
    wake = 'work'
    if owner == '' then enqueue(KEYS[4], KEYS[9], ARGV[1], now) end
    hint(KEYS[6], ARGV[2])
  end
end
return {'ok', seq, aside, losses, now, epoch, ends, wake, owner}
