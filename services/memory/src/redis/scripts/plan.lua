-- Changes of session memory have six arguments each: kind, key, value, metadata, its bytes, and the time
-- of the set ('' for now).

-- The field of a hash of session memory that has the rest of a key's entry: when the key got its first
-- value since it was absent and its last one (0 if that is not known), the bytes of its metadata, and the
-- metadata. No key begins with a zero byte.
local function rest(key)
  return '\0' .. key
end

-- How many keys and bytes session memory will have after `n` changes, which stand in ARGV from
-- `base` on. Answers a refusal as the third value. Writes nothing.
local function planned(memory, keys, bytes, base, n, most_keys, most_bytes)
  local had_keys, had_bytes = keys, bytes
  local touched, cleared = {}, false
  local function stored(key)
    if touched[key] then return touched[key] end
    if cleared then return -1 end
    local length = redis.call('HSTRLEN', memory, key)
    if length == 0 and redis.call('HEXISTS', memory, key) == 0 then return -1 end
    local entry = redis.call('HGET', memory, rest(key)) or ''
    return #key + length + tonumber(string.match(entry, '^%d+ %d+ (%d+)') or 0)
  end
  for i = base, base + 6 * (n - 1), 6 do
    local kind, key, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if kind == 'clear' then
      keys, bytes, touched, cleared = 0, 0, {}, true
    else
      local was = stored(key)
      if was >= 0 then keys, bytes = keys - 1, bytes - was end
      touched[key] = -1
      if kind == 'set' then
        touched[key] = #key + #value + ARGV[i + 4]
        keys, bytes = keys + 1, bytes + touched[key]
      end
    end
  end
  if keys > had_keys and keys > most_keys then
    return keys, bytes, limit('memory_keys', most_keys)
  end
  if bytes > had_bytes and bytes > most_bytes then
    return keys, bytes, limit('memory_bytes', most_bytes)
  end
  return keys, bytes
end

-- Carries the changes out.
local function change(memory, base, n, now)
  for i = base, base + 6 * (n - 1), 6 do
    local key = ARGV[i + 1]
    if ARGV[i] == 'set' then
      local updated = tonumber(ARGV[i + 5]) or now
      local created = updated
      if redis.call('HEXISTS', memory, key) == 1 then
        local entry = redis.call('HGET', memory, rest(key)) or ''
        created = tonumber(string.match(entry, '^%d+') or 0)
        updated = math.max(updated, created)
      end
      redis.call('HSET', memory, key, ARGV[i + 2], rest(key),
        table.concat({text(created), text(updated), ARGV[i + 4], ARGV[i + 3]}, ' '))
    elseif ARGV[i] == 'remove' then
      redis.call('HDEL', memory, key, rest(key))
    else
      redis.call('DEL', memory)
    end
  end
end
