-- KEYS: 1 child, 2 its requests, 3 copy, 4 copies, 5 the copy's journal, 6 the copy's blobs,
--       7 journal, 8 blobs, 9 memory, 10 due, 11 living, 12 work, 13 resting, 14 ending,
--       15 changed, 16 asking, 17 waiting
-- ARGV: 1 member, 2 request id, 3 digest, 4 source, 5 process, 6 status, 7 handled_through, 8 title,
--       9 when it is due ('' for never), 10 time to live in ms ('' for none), 11 bytes of the events,
--       12 journal_events, 13 journal_bytes, 14 bytes of session memory, 15 count of events,
--       16 count of entries of session memory, 17 checksums of the events, 18 notes,
--       19 what the session needs, 20 what it waits for, 21… events, then entries as two
--       fields with their values each
local now = clock()
local answer = there(KEYS[1], KEYS[2], now)
if answer then return answer end
local copy, bad = begun(KEYS[3])
if bad then return bad end
if not copy or copy.seq ~= copy.cut then return {'conflict'} end
local count, entries = tonumber(ARGV[15]), tonumber(ARGV[16])
local last, bytes = copy.cut + count, copy.bytes + ARGV[11]
if last > tonumber(ARGV[12]) then return limit('journal_events', ARGV[12]) end
if bytes > tonumber(ARGV[13]) then return limit('journal_bytes', ARGV[13]) end

-- As with sessions that are created: the order rises, and what is read is read before the first write.
local t = redis.call('TIME')
local rank = t[1] * 1000000 + t[2]
local newest = redis.call('ZRANGE', KEYS[11], -1, -1, 'WITHSCORES')[2]
if newest and tonumber(newest) >= rank then rank = tonumber(newest) + 1 end
local has_blobs = redis.call('EXISTS', KEYS[6]) == 1
-- What the mark of an earlier session of this name has. Late owners of that one stay fenced, and are
-- not told that their transitions are lost.
local mark = redis.call('HMGET', KEYS[1], 'ep', 'ver', 'al')
local epoch, version = mark[1] or 0, mark[2] or 0

-- The mark has a time at which it is forgotten, and the session has none.
redis.call('DEL', KEYS[1])
redis.call('RENAME', KEYS[5], KEYS[7])
if has_blobs then redis.call('RENAME', KEYS[6], KEYS[8]) end
for i = 1, count do
  local seq, letter = copy.cut + i, i < count and 'm' or 'e'
  append(KEYS[7], seq, name(letter, ARGV[17], i, seq), ARGV[20 + i])
end
for i = 21 + count, 17 + count + 4 * entries, 4 do
  redis.call('HSET', KEYS[9], ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
redis.call('HSET', KEYS[1], 'f', FORMAT, 'cr', now, 'up', now, 'st', ARGV[6], 'ver', version,
  'seq', last, 'jb', bytes, 'hnd', ARGV[7], 'cmd', 0, 'flo', last, 'uns', 0, 'op', '', 'of', 1,
  'ep', epoch, 'ow', '', 'le', 0, 'cl', 0, 'q', 0, 'mk', entries, 'mb', ARGV[14], 'bb', copy.blobs,
  'ti', ARGV[8], 'no', ARGV[18], 'rk', text(rank), 'nd', ARGV[19])
if mark[3] then redis.call('HSET', KEYS[1], 'al', mark[3]) end
redis.call('HSET', KEYS[2], ARGV[2], copy.cut .. ' ' .. ARGV[3])
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZADD', KEYS[11], rank, ARGV[1])
changed(KEYS[15], KEYS[1], ARGV[1], nil, now)
if asks(ARGV[18]) then
  redis.call('HSET', KEYS[1], 'as', 1)
  redis.call('ZADD', KEYS[16], rank, ARGV[1])
end
if ARGV[20] ~= '' then waits(KEYS[17], KEYS[1], ARGV[1], ARGV[20], now) end
if ARGV[10] == '' then
  redis.call('ZADD', KEYS[13], now, ARGV[1])
else
  redis.call('HSET', KEYS[1], 'ttl', ARGV[10])
  redis.call('ZADD', KEYS[14], text(now + ARGV[10]), ARGV[1])
end
if ARGV[9] ~= '' then
  redis.call('ZADD', KEYS[10], ARGV[9], ARGV[1])
  hint(KEYS[12], ARGV[5])
end
return {'ok', now, copy.cut, copy.cut}
