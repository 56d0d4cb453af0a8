#!lua flags=allow-oom
-- Keeps the states of the estate's nodes, for the guard that holds the lock. One that has lost it changes nothing.
--
-- KEYS[1] prefix
-- ARGV[1] the guard, [2] the states
-- Returns 1 if they were kept

-- include: keys.lua

if redis.call('GET', P .. ':lock:estate-guard') ~= ARGV[1] then return 0 end
redis.call('SET', P .. ':guarded', ARGV[2])
return 1
