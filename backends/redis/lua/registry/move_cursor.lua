#!lua flags=allow-oom
-- Moves the cursor of the control topic's fold, if the cursor and the view are those that the caller expects.
--
-- KEYS[1] prefix
-- ARGV[1] expected position ('' for none), [2] new position, [3] epoch, [4] 1 if the epoch's mark is before the new
--   position, else 0
-- Returns 1 if it was moved, else 0

-- include: epoch_read.lua
-- include: form.lua

local key = P .. ':control'
if redis.call('HGET', P .. ':epoch', 'id') ~= ARGV[3] then return 0 end
if (redis.call('HGET', key, 'cursor') or '') ~= ARGV[1] or is_closed_view() then return 0 end
redis.call('HSET', key, 'cursor', ARGV[2])
if ARGV[4] == '1' then epoch_read('control', ARGV[3]) end
return 1
