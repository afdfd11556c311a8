-- KEYS: 1 child, 2 its requests, 3 copy, 4 copies
-- ARGV: 1 member, 2 request id, 3 digest, 4 source, 5 the cut ('' while it is not known)
-- Answers the cut and how far it is copied; -1 and 0 if nothing is begun.
local now = clock()
local answer = there(KEYS[1], KEYS[2], now)
if answer then return answer end
local copy, bad = begun(KEYS[3])
if bad then return bad end
if not copy then
  if ARGV[5] == '' then return {'ok', now, -1, 0} end
  copy = {cut = tonumber(ARGV[5]), seq = 0}
  redis.call('HSET', KEYS[3], 'f', FORMAT, 'req', ARGV[2], 'dig', ARGV[3], 'src', ARGV[4],
    'cut', ARGV[5], 'seq', 0, 'jb', 0, 'bb', 0)
end
redis.call('ZADD', KEYS[4], now, ARGV[1])
return {'ok', now, copy.cut, copy.seq}
