-- KEYS: 1 session, 2 leases, 3 due, 4 quarantined, 5 newer
-- ARGV: 1 member, 2 the accepted losses that the caller knew of ('' for whatever was accepted)
-- Answers 1 if it was not quarantine for this before, 0 if it was, -1 if a loss was accepted since.
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'q', 'qw', 'al')
local bad = refused(s[1], s[2])
if bad then return bad end
if ARGV[2] ~= '' and accepted(s[5]) > tonumber(ARGV[2]) then return {'ok', -1} end
-- What takes no memory comes first: a server that is full refuses the first write of a script if that
-- takes some, and no later one.
local now = clock()
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('ZADD', KEYS[4], now, ARGV[1])
redis.call('HSET', KEYS[1], 'q', 1, 'qw', LOST, 'ow', '', 'le', 0)
local new = 1
if quarantine(s[3], s[4]) == 2 then new = 0 end
return {'ok', new}
