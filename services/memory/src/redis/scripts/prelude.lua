-- The format of a session's hash that these scripts know.
local FORMAT = '1'

-- Why a session cannot be worked on, or nil: by its fields `f` (format) and `del` (when it was
-- deleted, and how it ended).
local function refused(format, deleted)
  if not format then return {'notfound'} end
  if format ~= FORMAT then return {'format', format} end
  if deleted then return {'terminal', deleted} end
end

local function limit(what, allowed)
  return {'limit', what, allowed}
end

-- A whole number as text; Redis would take longer for it.
local function text(number)
  return string.format('%d', number)
end

-- Appends one event; its number is its place in the stream. The name of its field says whether more
-- of the same transition follow: 'm', else 'e'.
local function append(journal, seq, event, field)
  redis.call('XADD', journal, seq .. '-0', field or 'e', event)
end
