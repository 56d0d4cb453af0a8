#!lua flags=allow-oom
-- Notes an incident, in the place of an earlier one of the same subject, for the process that takes captures.
--
-- KEYS[1] prefix
-- ARGV[1] subject, [2] note, [3] maximum number of notes, [4] ms until notes are forgotten
-- Returns 1, or 0 if there are too many notes of other subjects

-- include: keys.lua
-- include: clock.lua

local key = P .. ':incidents'
if redis.call('HEXISTS', key, ARGV[1]) == 0 and redis.call('HLEN', key) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', key, ARGV[1], int_text(now_ms()) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', key, ARGV[4])
return 1
