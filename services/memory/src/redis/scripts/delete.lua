-- KEYS: 1 session, 2 journal, 3 requests, 4 memory, 5 blobs, 6 checkpoints, 7 their numbers,
--       8 leases, 9 due, 10 quarantined, 11 living, 12 resting, 13 ending, 14 changed,
--       15 asking, 16 newer, 17 waiting, 18 followers
-- ARGV: 1 member, 2 process, 3 how long the mark stays in ms, 4 how it ends,
--       5 the last number of a session that must be idle and unchanged, '' for any
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'ep', 'seq', 'st', 'ow', 'q', 'cmd', 'hnd',
  'al', 'ver')
local losses = accepted(s[10])
if s[2] and readable(s[1]) then return {'ok', 0, losses} end
local bad = refused(s[1], s[2])
if bad then return bad end
if ARGV[5] ~= '' then
  local idle = s[5] == '0' and s[6] == '' and s[7] == '0' and tonumber(s[8]) <= tonumber(s[9])
    and not redis.call('ZSCORE', KEYS[9], ARGV[1]) and not redis.call('ZSCORE', KEYS[16], ARGV[1])
  if not idle or s[4] ~= ARGV[5] then return {'ok', 0, losses} end
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
for i = 8, 17 do redis.call('ZREM', KEYS[i], ARGV[1]) end
redis.call('HSET', KEYS[1], 'f', FORMAT, 'del', text(clock()) .. ' ' .. ARGV[4], 'ep', s[3] + 1,
  'ver', s[11])
if s[10] then redis.call('HSET', KEYS[1], 'al', s[10]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
hint(KEYS[18], ARGV[2] .. ' end')
return {'ok', 1, losses}
