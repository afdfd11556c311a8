-- KEYS: 1 copy, 2 its journal, 3 its blobs, 4 copies
-- ARGV: 1 member, 2 the time by which nobody must have gone on with it since
local last = redis.call('ZSCORE', KEYS[4], ARGV[1])
if not last or tonumber(last) > tonumber(ARGV[2]) then return {'ok', 0} end
local format = redis.call('HGET', KEYS[1], 'f')
if format and not readable(format) then return {'ok', 0} end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('ZREM', KEYS[4], ARGV[1])
return {'ok', 1}
