-- KEYS: 1 session, 2 journal
-- ARGV: 1 cursor, 2 most events, 3 most bytes
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq', 'ver', 'st', 'hnd', 'ti', 'q', 'qw', 'al')
local bad = refused(s[1], s[2])
if bad then return bad end
local answer = {'ok', tonumber(s[3]), tonumber(s[4]), tonumber(s[5]), tonumber(s[6]), s[7],
  quarantine(s[8], s[9]), accepted(s[10])}
local cursor, last, most = tonumber(ARGV[1]), tonumber(s[3]), tonumber(ARGV[2])
local count, bytes = 0, 0
while cursor < last and count < most do
  -- A few at a time, so that little is read beyond the page.
  local wanted = math.min(64, most - count)
  local entries = redis.call('XRANGE', KEYS[2], (cursor + 1) .. '-0', last .. '-0', 'COUNT', wanted)
  if #entries == 0 then return redis.error_reply('ERR the journal has a gap') end
  for i = 1, #entries do
    local event = entries[i][2][2]
    bytes = bytes + #event
    if bytes > tonumber(ARGV[3]) and count > 0 then return answer end
    count = count + 1
    answer[8 + count] = event
  end
  cursor = cursor + #entries
end
return answer
