-- KEYS: 1 session, 2 due, 3 work, 4 newer
-- ARGV: 1 member, 2 process
-- Answers 1 if the session is queued by this, and otherwise 0.
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'ow', 'q', 'wf')
local bad = refused(s[1], s[2])
if bad then return bad end
if s[3] ~= '' or s[4] == '1' or not s[5] then return {'ok', 0} end
local now, due = clock(), tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]))
if (due and due <= now) or redis.call('ZSCORE', KEYS[4], ARGV[1]) then return {'ok', 0} end
enqueue(KEYS[2], KEYS[4], ARGV[1], now)
hint(KEYS[3], ARGV[2])
return {'ok', 1}
