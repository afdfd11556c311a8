-- Puts a document or deletes it.
-- KEYS: 1 collection, 2 documents, 3 versions, 4 tombstones, 5 operations, 6 slots, 7 buried, 8 watchers
-- ARGV: 1 member, 2 process, 3 id, 4 '1' for a deletion, 5 value, 6 its checksum (four bytes),
--       7 the expected version ('' for any, 0 for an absent document), 8 operation, 9 digest, 10 documents,
--       11 collection_bytes, 12 how many operations are remembered
-- Answers the version, 0 if there was nothing to delete, and the time.
local c = redis.call('HMGET', KEYS[1], 'f', 'ct', 'fl', 'n', 'b', 'tn')
if c[1] and not readable(c[1]) then return {'format', c[1]} end
local now = clock()
local known = redis.call('HGET', KEYS[5], ARGV[8])
if known then
  local space = string.find(known, ' ', 1, true)
  if string.sub(known, space + 1) ~= ARGV[9] then return {'mismatch'} end
  return {'dup', tonumber(string.sub(known, 1, space - 1)), now}
end
local version, floor = tonumber(c[2] or 0) + 1, tonumber(c[3] or 0)
local count, bytes, tombs = tonumber(c[4] or 0), tonumber(c[5] or 0), tonumber(c[6] or 0)
local id, deletes = ARGV[3], ARGV[4] == '1'
local living, buried = tonumber(redis.call('ZSCORE', KEYS[3], id) or 0), false
if living > 0 and redis.call('ZSCORE', KEYS[4], id) then living, buried = 0, true end
if ARGV[7] ~= '' and tonumber(ARGV[7]) ~= living then return {'version', living} end
if deletes and living == 0 then return {'ok', 0, now} end
-- A document is its version and the time of its change, of 16 digits each, its checksum and its value. A
-- tombstone has the first two.
local old, was = 0, 0
if living > 0 then old, was = 1, #id + redis.call('HSTRLEN', KEYS[2], id) - 36 end
if deletes then
  count, bytes, tombs = count - 1, bytes - was, tombs + 1
else
  local grown, size = 1 - old, #id + #ARGV[5]
  if grown > 0 and count + grown > tonumber(ARGV[10]) then return limit('documents', ARGV[10]) end
  if size > was and bytes - was + size > tonumber(ARGV[11]) then
    return limit('collection_bytes', ARGV[11])
  end
  count, bytes = count + grown, bytes - was + size
  if buried then tombs = tombs - 1 end
end
-- With more tombstones than there may be documents, the oldest goes. What is read is read before the first
-- write, because it may fail.
local slot = text(version % tonumber(ARGV[12]))
local earlier = redis.call('HGET', KEYS[6], slot)
local oldest
if deletes and tombs > tonumber(ARGV[10]) then
  oldest = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  -- With no room for any tombstone, it is the new one.
  if not oldest[1] then oldest = {id, version} end
end

-- A server that is full refuses the first write of a script if that takes memory, and no later one: a deletion
-- has to be possible there.
if deletes then redis.call('HDEL', KEYS[2], id) end
local head = string.format('%016d%016d', version, now)
if deletes then
  redis.call('HSET', KEYS[2], id, head)
  redis.call('ZADD', KEYS[4], version, id)
  redis.call('ZADD', KEYS[7], 'NX', now, ARGV[1])
else
  redis.call('HSET', KEYS[2], id, head .. ARGV[6] .. ARGV[5])
  if buried then redis.call('ZREM', KEYS[4], id) end
end
redis.call('ZADD', KEYS[3], version, id)
if earlier then redis.call('HDEL', KEYS[5], earlier) end
redis.call('HSET', KEYS[5], ARGV[8], text(version) .. ' ' .. ARGV[9])
redis.call('HSET', KEYS[6], slot, ARGV[8])
if oldest then
  redis.call('HDEL', KEYS[2], oldest[1])
  redis.call('ZREM', KEYS[3], oldest[1])
  redis.call('ZREM', KEYS[4], oldest[1])
  floor, tombs = math.max(floor, tonumber(oldest[2])), tombs - 1
end
redis.call('HSET', KEYS[1], 'f', FORMAT, 'ct', version, 'fl', floor, 'n', count, 'b', bytes,
  'tn', tombs)
hint(KEYS[8], ARGV[2] .. ' ' .. text(version))
return {'ok', version, now}
