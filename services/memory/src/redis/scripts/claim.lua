-- KEYS: 1 leases, 2 due, 3 quarantined, 4 newer, 5… sessions
-- ARGV: 1 owner, 2 lease_ms, 3 claims without progress that set a session aside, 4 the claimer's level,
--       5 what a level counts in the scores of `newer`, 6 count,
--       7… for each session its member and 1 if its lease ran out, or 2 if it is due
local now = clock()
local ends = now + ARGV[2]
local answer = {'ok', now, ends}

-- Since when the session can be claimed, if it can. What another claimer could not read is in `newer`.
local function since(queue, member)
  local time = tonumber(redis.call('ZSCORE', queue, member))
  if time then return time <= now and time end
  local place = tonumber(redis.call('ZSCORE', KEYS[4], member))
  return place and place % ARGV[5]
end

-- Out of all queues.
local function remove(member)
  redis.call('ZREM', KEYS[1], member)
  redis.call('ZREM', KEYS[2], member)
  redis.call('ZREM', KEYS[4], member)
end

for i = 1, tonumber(ARGV[6]) do
  local key, member, queue = KEYS[4 + i], ARGV[5 + 2 * i], KEYS[tonumber(ARGV[6 + 2 * i])]
  local time, epoch = since(queue, member), 0
  if time then
    local s = redis.call('HMGET', key, 'f', 'ep', 'cl', 'seq', 'nd')
    if s[1] and not readable(s[1]) then
      epoch = -2
    elseif not s[4] then
      remove(member)
    elseif tonumber(s[5]) > tonumber(ARGV[4]) then
      -- Left to a claimer of a higher level, and out of the way of others. Its owner may still write.
      epoch = -2 - s[5]
      remove(member)
      redis.call('ZADD', KEYS[4], text(s[5] * ARGV[5] + time), member)
    elseif counted(tonumber(s[3])) >= tonumber(ARGV[3]) then
      epoch = -1
      redis.call('ZADD', KEYS[3], now, member)
      remove(member)
      redis.call('HSET', key, 'q', 1, 'ow', '', 'le', 0)
      redis.call('HDEL', key, 'qw')
    else
      epoch = s[2] + 1
      redis.call('ZADD', KEYS[1], ends, member)
      redis.call('ZREM', KEYS[2], member)
      redis.call('ZREM', KEYS[4], member)
      redis.call('HSET', key, 'ow', ARGV[1], 'ep', epoch, 'le', ends,
        'cl', -(counted(tonumber(s[3])) + 1), 'flo', s[4], 'uns', 0)
    end
  end
  answer[3 + i] = epoch
end
return answer
