-- Removes the oldest tombstones of a collection that were made by a time.
-- KEYS: 1 collection, 2 documents, 3 versions, 4 tombstones, 5 buried
-- ARGV: 1 member, 2 the time, 3 most tombstones
-- Answers how many were removed.
local c = redis.call('HMGET', KEYS[1], 'f', 'fl', 'tn')
-- A newer program knows what to do with it.
if c[1] and not readable(c[1]) then return {'ok', 0} end
local most, gone, rest, floor = tonumber(ARGV[3]), {}, nil, tonumber(c[2] or 0)
local found = redis.call('ZRANGE', KEYS[4], 0, most, 'WITHSCORES')
for i = 1, #found, 2 do
  local made = tonumber(string.sub(redis.call('HGET', KEYS[2], found[i]), 17, 32))
  if #gone == most or made > tonumber(ARGV[2]) then
    rest = made
    break
  end
  gone[#gone + 1], floor = found[i], math.max(floor, tonumber(found[i + 1]))
end

for i = 1, #gone do
  redis.call('ZREM', KEYS[4], gone[i])
  redis.call('ZREM', KEYS[3], gone[i])
  redis.call('HDEL', KEYS[2], gone[i])
end
-- The first write takes no memory, so that a full server makes room.
redis.call('ZREM', KEYS[5], ARGV[1])
if rest then redis.call('ZADD', KEYS[5], rest, ARGV[1]) end
if #gone > 0 then redis.call('HSET', KEYS[1], 'fl', floor, 'tn', c[3] - #gone) end
return {'ok', #gone}
