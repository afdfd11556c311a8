-- Some events of the source, up to where the last transition ends that ends at or before a number.
-- KEYS: 1 session, 2 journal
-- ARGV: 1 cursor, 2 the number ('' for the last), 3 most events, 4 most bytes
-- Answers the cut, the time to live ('' for none), what the session needs, the names of the events'
-- fields together, and the events.
local s = redis.call('HMGET', KEYS[1], 'f', 'del', 'seq', 'ttl', 'nd')
local bad = refused(s[1], s[2])
if bad then return bad end
local last = tonumber(s[3])
local cut = last
if ARGV[2] ~= '' then cut = tonumber(ARGV[2]) end
if cut > last then return {'back', cut, last} end
local place, ends = cut, cut == last
while not ends and place > 0 do
  -- What a session was made with, and what came from others, ends with each event.
  local entries = redis.call('XREVRANGE', KEYS[2], place .. '-0', '-', 'COUNT', 64)
  if #entries == 0 then return gap(place) end
  for i = 1, #entries do
    if not ends and string.sub(entries[i][2][1], 1, 1) == 'e' then cut, ends = place - i + 1, true end
  end
  place = place - #entries
end
local answer, names = {'ok', cut, s[4] or '', tonumber(s[5]), ''}, {}
local cursor, most, bytes, full = tonumber(ARGV[1]), tonumber(ARGV[3]), 0, false
while cursor < cut and #names < most and not full do
  local wanted = math.min(64, most - #names)
  local entries = redis.call('XRANGE', KEYS[2], (cursor + 1) .. '-0', cut .. '-0', 'COUNT', wanted)
  if #entries == 0 then return gap(cursor + 1) end
  for i = 1, #entries do
    bytes = bytes + #entries[i][2][2]
    full = full or (bytes > tonumber(ARGV[4]) and #names > 0)
    if not full then
      names[#names + 1] = entries[i][2][1]
      answer[5 + #names] = entries[i][2][2]
    end
  end
  cursor = cursor + #entries
end
answer[5] = table.concat(names)
return answer
