-- KEYS: 1 session, 2 blobs
-- ARGV: 1 digest, 2 data, 3 session_blob_bytes
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'bb')
local bad = refused(s[1], s[2])
if bad then return bad end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
  local bytes = s[3] + #ARGV[2]
  if bytes > tonumber(ARGV[3]) then return limit('session_blob_bytes', ARGV[3]) end
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  redis.call('HSET', KEYS[1], 'bb', bytes)
end
return {'ok'}
