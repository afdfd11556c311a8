-- KEYS: 1 session, 2 a hash of it
-- ARGV: 1 field
local s = redis.call('HMGET', KEYS[1], 'f', 'del')
return refused(s[1], s[2]) or {'ok', redis.call('HGET', KEYS[2], ARGV[1])}
