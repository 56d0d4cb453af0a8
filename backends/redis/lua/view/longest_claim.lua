-- library
-- include: keys.lua

-- After the claims made before a view have ended, time for live workers to report the outcomes of them that no topic
-- has: these are late after a second, and a heartbeat a second names them (dispatcher/engine/unrecorded.py).
local REPORT_MS = 4000

-- Stores the longest claim that any worker is known to make, and returns it (ms).
local function note_longest_claim(claim_ms)
  local key = P .. ':epoch'
  local longest = math.max(claim_ms, tonumber(redis.call('HGET', key, 'claim_ms') or 0))
  redis.call('HSET', key, 'claim_ms', int_text(longest))
  return longest
end
