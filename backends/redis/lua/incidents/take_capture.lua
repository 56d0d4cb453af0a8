#!lua flags=allow-oom
-- Takes or keeps the right to make a capture by itself, which one process has in each span of time.
--
-- The lock counts by Redis' clock. If that is set back, the lock would last longer: it is shortened to the span.
--
-- KEYS[1] prefix
-- ARGV[1] owner, [2] ms until it may be taken by another, [3] longest such time
-- Returns 0 if the owner has it, or else the ms that are left

-- include: keys.lua

local key, span = P .. ':lock:capture', tonumber(ARGV[3])
local holder, left = redis.call('GET', key), redis.call('PTTL', key)
if holder and holder ~= ARGV[1] then
  if left >= 0 and left <= span then return math.max(1, left) end
  redis.call('PEXPIRE', key, ARGV[3])
  return span
end
redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
return 0
