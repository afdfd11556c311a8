-- Whether an event without ownership has no room; ARGV holds the limits from `base` on.
local function no_room(events, bytes, unseen, owner, base)
  if events > tonumber(ARGV[base]) then return limit('journal_events', ARGV[base]) end
  if bytes > tonumber(ARGV[base + 1]) then return limit('journal_bytes', ARGV[base + 1]) end
  if owner ~= '' and unseen > tonumber(ARGV[base + 2]) then
    return limit('unseen_bytes', ARGV[base + 2])
  end
end
