-- Copies that are to become sessions. ARGV begins with 1 member, 2 request id, 3 digest, 4 source
-- ('' for a transcript).

-- Whether a session that ended so may be made again: from a transcript, if it is in the archive.
local function revives(format, deleted)
  return ARGV[4] == '' and readable(format) and deleted and string.sub(deleted, -9) == ' archived'
end

-- What is answered if the child is there already; nil if it is not.
local function there(child, requests, now)
  local s = redis.call('HMGET', child, 'f', 'del')
  if not s[1] or revives(s[1], s[2]) then return end
  local bad = refused(s[1], s[2])
  if bad then return bad end
  local known = redis.call('HGET', requests, ARGV[2])
  if not known then return {'mismatch'} end
  local space = string.find(known, ' ', 1, true)
  if string.sub(known, space + 1) ~= ARGV[3] then return {'mismatch'} end
  local cut = tonumber(string.sub(known, 1, space - 1))
  return {'dup', now, cut, cut}
end

-- The cut, how far it is copied, and the bytes of events and blobs; nil if nothing was begun. As the
-- second value why it cannot be gone on with.
local function begun(copy)
  local c = redis.call('HMGET', copy, 'f', 'req', 'dig', 'src', 'cut', 'seq', 'jb', 'bb')
  if not c[1] then return end
  if not readable(c[1]) then return nil, {'format', c[1]} end
  if c[2] ~= ARGV[2] or c[3] ~= ARGV[3] or c[4] ~= ARGV[4] then return nil, {'mismatch'} end
  return {cut = tonumber(c[5]), seq = tonumber(c[6]), bytes = tonumber(c[7]), blobs = tonumber(c[8])}
end
