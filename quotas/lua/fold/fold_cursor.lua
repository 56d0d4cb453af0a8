-- Reads the cursor of an outcome topic's fold.
--
-- KEYS[1] prefix
-- ARGV[1] partition
-- Returns the cursor, nil if there is none

-- include: keys.lua

return redis.call('HGET', P .. ':fold:' .. ARGV[1], 'cursor')
