-- KEYS: 1 session, 2 due, 3 set aside, 4 work
-- ARGV: 1 member, 2 process
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'q')
local bad = refused(s[1], s[2])
if bad then return bad end
if s[3] == '1' then
  redis.call('ZADD', KEYS[2], clock(), ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('HSET', KEYS[1], 'q', 0, 'cl', 0)
  redis.call('SPUBLISH', KEYS[4], ARGV[2])
end
return {'ok'}
