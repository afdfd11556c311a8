-- KEYS: 1 session, 2 leases, 3 due, 4 work, 5 newer
-- ARGV: 1 member, 2 process, 3 owner, 4 epoch, 5 delay_ms
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'ep', 'ow', 'cl')
local bad = refused(s[1], s[2])
if bad then return bad end
if s[3] == ARGV[4] and s[4] == '' then return {'ok'} end
if s[3] ~= ARGV[4] or s[4] ~= ARGV[3] then return {'fenced'} end
redis.call('ZADD', KEYS[3], clock() + ARGV[5], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('HSET', KEYS[1], 'ow', '', 'le', 0, 'cl', math.max(math.abs(s[5]) - 1, 0))
hint(KEYS[4], ARGV[2])
return {'ok'}
