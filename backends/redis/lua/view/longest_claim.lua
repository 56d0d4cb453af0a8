-- library
-- include: keys.lua
-- constants: REPORT_MS

-- Stores the longest claim that any worker is known to make, and returns it (ms).
local function note_longest_claim(claim_ms)
  local key = P .. ':epoch'
  local longest = math.max(claim_ms, tonumber(redis.call('HGET', key, 'claim_ms') or 0))
  redis.call('HSET', key, 'claim_ms', int_text(longest))
  return longest
end
