-- KEYS: 1 session, 2 journal, 3 memory, 4 followers, 5 changed
-- ARGV: 1 process, 2 event, 3 its checksum, 4 memory keys allowed, 5 memory bytes allowed,
--       6 journal_events, 7 journal_bytes, 8 unseen_bytes, 9 member,
--       10… the change
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq', 'jb', 'uns', 'ow', 'mk', 'mb', 'al', 'ch')
local bad = refused(s[1], s[2])
if bad then return bad end
local keys, size
keys, size, bad = planned(KEYS[3], tonumber(s[7]), tonumber(s[8]), 10, 1, tonumber(ARGV[4]),
  tonumber(ARGV[5]))
if bad then return bad end
local seq, bytes, unseen = s[3] + 1, s[4] + #ARGV[2], s[5] + #ARGV[2]
bad = no_room(seq, bytes, unseen, s[6], 6)
if bad then return bad end

local now = clock()
append(KEYS[2], seq, name('e', ARGV[3], 1, seq), ARGV[2])
change(KEYS[3], 10, 1, now)
redis.call('HSET', KEYS[1], 'up', now, 'seq', seq, 'jb', bytes, 'uns', unseen, 'mk', keys,
  'mb', size)
changed(KEYS[5], KEYS[1], ARGV[9], s[10], now)
hint(KEYS[4], ARGV[1] .. ' ' .. seq)
return {'ok', seq, accepted(s[9]), now}
