-- The documents above a version.
-- KEYS: 1 collection, 2 documents, 3 versions
-- ARGV: 1 the version, 2 most documents, 3 most bytes
-- Answers the incarnation, the counter, the floor, 1 if the page is the last one, and ids and documents in turn.
local c = redis.call('HMGET', KEYS[1], 'f', 'ct', 'fl')
if c[1] and not readable(c[1]) then return {'format', c[1]} end
-- A server gives itself another id when it is started and when it becomes a master. So whatever one id has
-- written continues one history. Empty if the user may not ask, or the server does not say.
local incarnation = ''
local info = redis.pcall('INFO', 'replication')
if type(info) == 'string' then incarnation = string.match(info, 'master_replid:(%x+)') or '' end
local answer = {'ok', incarnation, tonumber(c[2] or 0), tonumber(c[3] or 0), 1}
local most, room, count = tonumber(ARGV[2]), tonumber(ARGV[3]), 0
while true do
  -- A few at a time, so that little is read beyond the page.
  local ids = redis.call('ZRANGE', KEYS[3], '(' .. ARGV[1], '+inf', 'BYSCORE', 'LIMIT', count, 64)
  for i = 1, #ids do
    room = room - #ids[i] - redis.call('HSTRLEN', KEYS[2], ids[i])
    if count == most or (room < 0 and count > 0) then
      answer[5] = 0
      return answer
    end
    count = count + 1
    answer[4 + 2 * count], answer[5 + 2 * count] = ids[i], redis.call('HGET', KEYS[2], ids[i])
  end
  if #ids < 64 then return answer end
end
