-- Counts a blob that was stored before.
-- KEYS: 1 session, 2 blobs
-- ARGV: 1 bytes of the blob, 0 if the session had it already
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'bb')
local bad = refused(s[1], s[2])
if bad then
  -- The blob may have been stored after the session was deleted.
  if bad[1] ~= 'format' then redis.call('UNLINK', KEYS[2]) end
  return bad
end
if ARGV[1] ~= '0' then redis.call('HSET', KEYS[1], 'bb', s[3] + ARGV[1]) end
return {'ok'}
