#!lua flags=allow-oom
-- Releases those of the named locks that the owner holds.
--
-- KEYS[1] prefix
-- ARGV[1] owner, then names
-- Returns the number of locks released

-- include: keys.lua

local released = 0
for index = 2, #ARGV do
  local key = P .. ':lock:' .. ARGV[index]
  if redis.call('GET', key) == ARGV[1] then released = released + redis.call('DEL', key) end
end
return released
