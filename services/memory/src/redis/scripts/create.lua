-- KEYS: 1 session, 2 journal, 3 requests, 4 leases, 5 due, 6 living, 7 work, 8 resting, 9 ending,
--       10 changed, 11 asking, 12 waiting
-- ARGV: 1 member, 2 process, 3 request id, 4 digest, 5 operation, 6 owner ('' for none),
--       7 lease_ms, 8 status, 9 handled_through, 10 title, 11 last_command_seq,
--       12 bytes of the events, 13 journal_events, 14 journal_bytes, 15 count,
--       16 time to live in ms ('' for none), 17 checksums of the events, 18 notes,
--       19 what the session needs, 20 what it waits for, 21… events
local now = clock()
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'ver', 'op', 'ep', 'ow', 'le')
if s[1] then
  local bad = refused(s[1], s[2])
  if bad then return bad end
  local known = redis.call('HGET', KEYS[3], ARGV[3])
  if not known or string.sub(known, string.find(known, ' ', 1, true) + 1) ~= ARGV[4] then
    return {'mismatch'}
  end
  -- Until the first transition the operation noted is the creation.
  local mine = s[3] == '0' and s[4] == ARGV[5] and ARGV[6] ~= '' and s[6] == ARGV[6]
  if mine then return {'dup', now, tonumber(s[5]), tonumber(s[7])} end
  return {'dup', now, -1, -1}
end
local count, bytes = tonumber(ARGV[15]), tonumber(ARGV[12])
if count > tonumber(ARGV[13]) then return limit('journal_events', ARGV[13]) end
if bytes > tonumber(ARGV[14]) then return limit('journal_bytes', ARGV[14]) end

-- Listings go by the order of creation: it rises in a namespace and partition, whatever clocks do.
-- What is read is read before the first write, because it may fail.
local t = redis.call('TIME')
local rank = t[1] * 1000000 + t[2]
local newest = redis.call('ZRANGE', KEYS[6], -1, -1, 'WITHSCORES')[2]
if newest and tonumber(newest) >= rank then rank = tonumber(newest) + 1 end

for i = 1, count do append(KEYS[2], i, name('e', ARGV[17], i, i), ARGV[20 + i]) end
local epoch, ends = -1, -1
if ARGV[6] ~= '' then epoch, ends = 1, now + tonumber(ARGV[7]) end
redis.call('HSET', KEYS[1], 'f', FORMAT, 'cr', now, 'up', now, 'st', ARGV[8], 'ver', 0,
  'seq', count, 'jb', bytes, 'hnd', ARGV[9], 'cmd', ARGV[11], 'flo', count, 'uns', 0,
  'op', ARGV[5], 'of', 1, 'ep', math.max(epoch, 0), 'ow', ARGV[6], 'le', math.max(ends, 0),
  'cl', 0, 'q', 0, 'mk', 0, 'mb', 0, 'bb', 0, 'ti', ARGV[10],
  'no', ARGV[18], 'rk', text(rank), 'nd', ARGV[19])
redis.call('HSET', KEYS[3], ARGV[3], ARGV[11] .. ' ' .. ARGV[4])
redis.call('ZADD', KEYS[6], rank, ARGV[1])
changed(KEYS[10], KEYS[1], ARGV[1], nil, now)
if asks(ARGV[18]) then
  redis.call('HSET', KEYS[1], 'as', 1)
  redis.call('ZADD', KEYS[11], rank, ARGV[1])
end
if ARGV[20] ~= '' then waits(KEYS[12], KEYS[1], ARGV[1], ARGV[20], now) end
if ARGV[16] == '' then
  redis.call('ZADD', KEYS[8], now, ARGV[1])
else
  redis.call('HSET', KEYS[1], 'ttl', ARGV[16])
  redis.call('ZADD', KEYS[9], text(now + ARGV[16]), ARGV[1])
end
local queued = 0
if ends > 0 then
  redis.call('ZADD', KEYS[4], ends, ARGV[1])
elseif tonumber(ARGV[11]) > tonumber(ARGV[9]) then
  queued = 1
  redis.call('ZADD', KEYS[5], now, ARGV[1])
  hint(KEYS[7], ARGV[2])
end
return {'ok', now, epoch, ends, queued}
