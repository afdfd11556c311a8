-- KEYS: 1 session, 2 due, 3 quarantined, 4 work
-- ARGV: 1 member, 2 process, 3 '1' if what is lost is accepted
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'q', 'qw', 'al')
local bad = refused(s[1], s[2])
if bad then return bad end
local why = quarantine(s[3], s[4])
if why == 2 and ARGV[3] ~= '1' then return {'lost'} end
if why > 0 then
  redis.call('ZADD', KEYS[2], clock(), ARGV[1])
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('HSET', KEYS[1], 'q', 0, 'cl', 0)
  redis.call('HDEL', KEYS[1], 'qw')
  -- Whoever remembers what is lost is to know that this has been accepted.
  if why == 2 then redis.call('HSET', KEYS[1], 'al', accepted(s[5]) + 1) end
  hint(KEYS[4], ARGV[2])
end
return {'ok'}
