-- library
-- include: keys.lua

-- Stores a cap's new rate with its bucket, if it is the lowest since the bucket was last read
-- (quotas/lua/lease/tasks.lua).
local function note_rate(key, field, cap)
  local rate, kept = tonumber(string.match(cap, '^%d+')), tonumber(redis.call('HGET', key, field))
  if rate and kept and rate > 0 and rate < kept then redis.call('HSET', key, field, int_text(rate)) end
end
