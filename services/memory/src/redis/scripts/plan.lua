-- How many keys and bytes session memory will have after `n` changes, which stand in ARGV from
-- `base` on as kind, key and value. Answers a refusal as the third value. Writes nothing.
local function planned(memory, keys, bytes, base, n, most_keys, most_bytes)
  local had_keys, had_bytes = keys, bytes
  local touched, cleared = {}, false
  local function stored(key)
    if touched[key] then return touched[key] end
    if cleared then return -1 end
    local length = redis.call('HSTRLEN', memory, key)
    if length == 0 and redis.call('HEXISTS', memory, key) == 0 then return -1 end
    return #key + length
  end
  for i = base, base + 3 * (n - 1), 3 do
    local kind, key, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if kind == 'clear' then
      keys, bytes, touched, cleared = 0, 0, {}, true
    else
      local was = stored(key)
      if was >= 0 then keys, bytes = keys - 1, bytes - was end
      touched[key] = -1
      if kind == 'set' then
        touched[key] = #key + #value
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
local function change(memory, base, n)
  for i = base, base + 3 * (n - 1), 3 do
    if ARGV[i] == 'set' then
      redis.call('HSET', memory, ARGV[i + 1], ARGV[i + 2])
    elseif ARGV[i] == 'remove' then
      redis.call('HDEL', memory, ARGV[i + 1])
    else
      redis.call('DEL', memory)
    end
  end
end
