-- KEYS: 1 leases, 2 newer, 3… sessions
-- ARGV: 1 owner, 2 lease_ms, 3 count, 4… for each session its member and epoch
-- Answers for each session 0 if it is lost, 2 if it has commands to be handled, and otherwise 1.
local now = clock()
local ends = now + ARGV[2]
local answer = {'ok', now, ends}
for i = 1, tonumber(ARGV[3]) do
  local s = redis.call('HMGET', KEYS[2 + i], 'f', 'ep', 'ow', 'cmd', 'hnd', 'cl')
  local state = 0
  if readable(s[1]) and s[2] == ARGV[3 + 2 * i] and s[3] == ARGV[1] and s[3] ~= '' then
    keep_leased(KEYS[1], KEYS[2], ends, ARGV[2 + 2 * i])
    redis.call('HSET', KEYS[2 + i], 'le', ends, 'cl', math.abs(s[6]))
    state = 1
    if tonumber(s[4]) > tonumber(s[5]) then state = 2 end
  end
  answer[3 + i] = state
end
return answer
