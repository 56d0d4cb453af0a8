#!lua flags=allow-oom
-- Stores the blocks of the dead-letter topic in which tasks have letters, for as long as ended tasks are remembered.
--
-- KEYS[1] prefix
-- ARGV task and block in turn
-- Returns 0

-- include: keys.lua

for index = 1, #ARGV, 2 do
  local key = P .. ':letters:' .. ARGV[index]
  redis.call('SADD', key, ARGV[index + 1])
  redis.call('PEXPIRE', key, int_text(TOMBSTONE_MS))
end
return 0
