-- Those of some sessions that may go; the others are looked at again when they may at the earliest.
-- KEYS: 1 due, 2 resting, 3 ending, 4 newer, 5… sessions
-- ARGV: 1 the time by which those in `resting` must have changed last, 2 count,
--       3… for each session its member and which of the two sets it was found in: 2 or 3
-- Answers for each session its last number and when it changed, or -1 and -1.
local now, before = clock(), tonumber(ARGV[1])

-- A server that is full refuses the first write of a script if that takes memory, and no later one:
-- what may go has to be found there, or nothing would ever make room.
local function look_at(set, time, member)
  redis.call('ZREM', set, member)
  redis.call('ZADD', set, time, member)
end

local answer = {'ok'}
for i = 1, tonumber(ARGV[2]) do
  local key, member, set = KEYS[4 + i], ARGV[1 + 2 * i], tonumber(ARGV[2 + 2 * i])
  local s = redis.call('HMGET', key, 'f', 'del', 'seq', 'up', 'st', 'ow', 'q', 'cmd', 'hnd', 'ttl')
  local last, changed = -1, -1
  if not s[1] or s[2] then
    redis.call('ZREM', KEYS[set], member)
  elseif not readable(s[1]) then
    -- A newer program knows what to do with it.
    look_at(KEYS[set], now, member)
  else
    local idle = s[5] == '0' and s[6] == '' and s[7] == '0' and tonumber(s[8]) <= tonumber(s[9])
      and not redis.call('ZSCORE', KEYS[1], member) and not redis.call('ZSCORE', KEYS[4], member)
    -- A change that makes it idle comes later than now.
    local look = now
    if idle then look = tonumber(s[4]) end
    local ending = set == 3
    if ending then look = look + tonumber(s[10] or 0) end
    if idle and ((ending and look <= now) or (not ending and look < before)) then
      last, changed = tonumber(s[3]), tonumber(s[4])
      -- Behind all others that may go, and still to be found by the next look.
      if ending then look = now else look = before end
    end
    look_at(KEYS[set], text(look), member)
  end
  answer[2 * i], answer[2 * i + 1] = last, changed
end
return answer
