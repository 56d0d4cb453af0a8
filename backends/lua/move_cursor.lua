-- Moves the cursor of the control topic's fold, if it stands where the caller thinks.
--
-- KEYS[1] prefix
-- ARGV[1] expected position ('' for none), [2] new position
-- Returns 1 if it was moved, else 0

-- include: keys.lua

local key = P .. ':control'
if (redis.call('HGET', key, 'cursor') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', key, 'cursor', ARGV[2])
return 1
