-- KEYS: 1 copy, 2 its blobs, 3 copies
-- ARGV: 1 member, 2 request id, 3 digest, 4 source, 5 digest of the blob, 6 data,
--       7 session_blob_bytes
local copy, bad = begun(KEYS[1])
if bad then return bad end
if not copy then return {'conflict'} end
if redis.call('HEXISTS', KEYS[2], ARGV[5]) == 0 then
  local bytes = copy.blobs + #ARGV[6]
  if bytes > tonumber(ARGV[7]) then return limit('session_blob_bytes', ARGV[7]) end
  redis.call('HSET', KEYS[2], ARGV[5], ARGV[6])
  redis.call('HSET', KEYS[1], 'bb', bytes)
end
redis.call('ZADD', KEYS[3], clock(), ARGV[1])
return {'ok'}
