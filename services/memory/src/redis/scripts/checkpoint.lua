-- KEYS: 1 session, 2 checkpoints, 3 their numbers
-- ARGV: 1 the highest number
local s = redis.call('HMGET', KEYS[1], 'f', 'del')
local bad = refused(s[1], s[2])
if bad then return bad end
local found = redis.call('ZRANGE', KEYS[3], ARGV[1], '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
if not found then return {'ok'} end
return {'ok', tonumber(found), redis.call('HGET', KEYS[2], found)}
