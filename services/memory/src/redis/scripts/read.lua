-- KEYS: 1 session, 2 journal
-- ARGV: 1 cursor, 2 most events, 3 most bytes
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq', 'ver', 'st', 'hnd', 'ti', 'q', 'qw', 'al', 'no',
  'nd', 'jb', 'wf')
local bad = refused(s[1], s[2])
if bad then return bad end
-- The events' fields have their names in one text.
local answer, names = {'ok', tonumber(s[3]), tonumber(s[4]), tonumber(s[5]), tonumber(s[6]), s[7],
  quarantine(s[8], s[9]), accepted(s[10]), s[11] or '', tonumber(s[12]), tonumber(s[13]),
  s[14] or '', ''}, {}
local cursor, last, most = tonumber(ARGV[1]), tonumber(s[3]), tonumber(ARGV[2])
local count, bytes, full = 0, 0, false
while cursor < last and count < most and not full do
  -- A few at a time, so that little is read beyond the page.
  local wanted = math.min(64, most - count)
  local entries = redis.call('XRANGE', KEYS[2], (cursor + 1) .. '-0', last .. '-0', 'COUNT', wanted)
  if #entries == 0 then return gap(cursor + 1) end
  for i = 1, #entries do
    local event = entries[i][2][2]
    bytes = bytes + #event
    full = full or (bytes > tonumber(ARGV[3]) and count > 0)
    if not full then
      count = count + 1
      names[count], answer[13 + count] = entries[i][2][1], event
    end
  end
  cursor = cursor + #entries
end
answer[13] = table.concat(names)
return answer
