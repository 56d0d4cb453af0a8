#!lua flags=allow-oom
-- Moves the cursor of the control topic's fold, if it stands where the caller thinks and the view is the one it thinks.
--
-- KEYS[1] prefix
-- ARGV[1] expected position ('' for none), [2] new position, [3] epoch, [4] 1 if the epoch's mark stands before the new
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
