-- KEYS: 1 leases, 2 due, 3 quarantined, 4… sessions
-- ARGV: 1 owner, 2 lease_ms, 3 claims without progress that set a session aside, 4 count,
--       5… for each session its member and 1 if its lease ran out, or 2 if it is due
local now = clock()
local ends = now + ARGV[2]
local answer = {'ok', now, ends}
for i = 1, tonumber(ARGV[4]) do
  local key, member, queue = KEYS[3 + i], ARGV[3 + 2 * i], KEYS[tonumber(ARGV[4 + 2 * i])]
  local score = redis.call('ZSCORE', queue, member)
  local epoch = 0
  if score and tonumber(score) <= now then
    local s = redis.call('HMGET', key, 'f', 'ep', 'cl', 'seq')
    if s[1] and not readable(s[1]) then
      epoch = -2
    elseif not s[4] then
      redis.call('ZREM', KEYS[1], member)
      redis.call('ZREM', KEYS[2], member)
    elseif counted(tonumber(s[3])) >= tonumber(ARGV[3]) then
      epoch = -1
      redis.call('ZADD', KEYS[3], now, member)
      redis.call('ZREM', KEYS[1], member)
      redis.call('ZREM', KEYS[2], member)
      redis.call('HSET', key, 'q', 1, 'ow', '', 'le', 0)
      redis.call('HDEL', key, 'qw')
    else
      epoch = s[2] + 1
      redis.call('ZADD', KEYS[1], ends, member)
      redis.call('ZREM', KEYS[2], member)
      redis.call('HSET', key, 'ow', ARGV[1], 'ep', epoch, 'le', ends,
        'cl', -(counted(tonumber(s[3])) + 1), 'flo', s[4], 'uns', 0)
    end
  end
  answer[3 + i] = epoch
end
return answer
