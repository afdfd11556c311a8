-- KEYS: 1 copy, 2 its blobs, 3 copies
-- ARGV: 1 member, 2 request id, 3 digest, 4 source, 5 digest of the blob, 6 data
local copy, bad = begun(KEYS[1])
if bad then return bad end
if not copy then return {'conflict'} end
if redis.call('HSETNX', KEYS[2], ARGV[5], ARGV[6]) == 1 then
  redis.call('HSET', KEYS[1], 'bb', copy.blobs + #ARGV[6])
end
redis.call('ZADD', KEYS[3], clock(), ARGV[1])
return {'ok'}
