-- KEYS: 1 session, 2 journal, 3 memory, 4 followers
-- ARGV: 1 process, 2 the event without its time, 3 memory keys allowed, 4 memory bytes allowed,
--       5 journal_events, 6 journal_bytes, 7 unseen_bytes, 8 kind, 9 key, 10 value
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq', 'jb', 'uns', 'ow', 'mk', 'mb', 'al')
local bad = refused(s[1], s[2])
if bad then return bad end
local keys, size
keys, size, bad = planned(KEYS[3], tonumber(s[7]), tonumber(s[8]), 8, 1, tonumber(ARGV[3]),
  tonumber(ARGV[4]))
if bad then return bad end

-- The event's first field is its time: a tag, and the number in groups of seven bits.
local now = clock()
local time, rest = {'\8'}, now
while rest > 127 do
  time[#time + 1] = string.char(rest % 128 + 128)
  rest = math.floor(rest / 128)
end
time[#time + 1] = string.char(rest)
local event = table.concat(time) .. ARGV[2]

local seq, bytes, unseen = s[3] + 1, s[4] + #event, s[5] + #event
bad = no_room(seq, bytes, unseen, s[6], 5)
if bad then return bad end
append(KEYS[2], seq, event)
change(KEYS[3], 8, 1)
redis.call('HSET', KEYS[1], 'up', now, 'seq', seq, 'jb', bytes, 'uns', unseen, 'mk', keys,
  'mb', size)
hint(KEYS[4], ARGV[1] .. ' ' .. seq)
return {'ok', seq, event, accepted(s[9])}
