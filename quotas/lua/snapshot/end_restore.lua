#!lua flags=allow-oom
-- Ends the restore of a view: the folds continue, from the cursors of the snapshot if one was restored.
--
-- KEYS[1] prefix
-- ARGV[1] the restorer's name from begin_restore.lua, then, if a snapshot was restored: the cursor of the control
--   topic, and those of the outcome topics by partition ('' for the beginning)
-- Returns 1, or 0 if Redis now holds another view, the restore has ended, or another restorer took over

-- include: feed.lua

local key = P .. ':epoch'
if redis.call('HGET', key, 'restoring') ~= ARGV[1] then return 0 end

local function put_cursor(name, cursor)
  if cursor == '' then redis.call('DEL', name) else redis.call('HSET', name, 'cursor', cursor) end
end

if #ARGV > 1 then
  put_cursor(P .. ':control', ARGV[2])
  for index = 3, #ARGV do put_cursor(P .. ':fold:' .. int_text(index - 3), ARGV[index]) end
end
redis.call('HSET', key, 'restoring', '0')
announce('epoch', '')
return 1
