-- KEYS: 1 copy, 2 its journal, 3 copies
-- ARGV: 1 member, 2 request id, 3 digest, 4 source, 5 the number that they follow,
--       6 names of their fields, five bytes each, 7 their bytes, 8 count, 9… events
local copy, bad = begun(KEYS[1])
if bad then return bad end
if not copy then return {'conflict'} end
local now, seq, count = clock(), copy.seq, tonumber(ARGV[8])
-- Somebody else may have copied them.
if seq == tonumber(ARGV[5]) then
  for i = 1, count do
    append(KEYS[2], seq + i, string.sub(ARGV[6], 5 * i - 4, 5 * i), ARGV[8 + i])
  end
  seq = seq + count
  redis.call('HSET', KEYS[1], 'seq', seq, 'jb', copy.bytes + ARGV[7])
  redis.call('ZADD', KEYS[3], now, ARGV[1])
end
return {'ok', now, copy.cut, seq}
