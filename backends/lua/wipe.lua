#!lua flags=allow-oom
-- Deletes every key of the prefix, all in one script: a fold that runs meanwhile sees either the old view or none.
--
-- KEYS[1] prefix
-- ARGV[1] pattern of its keys
-- Returns how many there were

local cursor, deleted = '0', 0
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
  cursor = page[1]
  if #page[2] > 0 then deleted = deleted + redis.call('UNLINK', unpack(page[2])) end
until cursor == '0'
return deleted
