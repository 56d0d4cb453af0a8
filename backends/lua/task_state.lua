-- library
-- A task's state, from fields of its hash (false where absent).
local function state_of(ended, cancelled, expires_ms, paused, start_ms, now)
  if ended and ended ~= '' then return ended end
  if cancelled == '1' then return 'cancelled' end
  local expires, start = tonumber(expires_ms or 0), tonumber(start_ms or 0)
  if expires > 0 and expires <= now then return 'expired' end
  if paused == '1' then return 'paused' end
  if start > now then return 'scheduled' end
  return 'running'
end
