-- KEYS: 1 session, 2 memory
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq')
return refused(s[1], s[2]) or {'ok', tonumber(s[3]), redis.call('HGETALL', KEYS[2])}
