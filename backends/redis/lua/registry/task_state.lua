-- library
-- Returns a task's state from fields of its hash (false if absent), in this order: ended, cancelled, expires_ms,
-- paused, start_ms, lane, app, tier, stopped (STATE_FIELDS in backends/redis/registry/task_rows.py).
local function state_of(fields, now)
  local ended, cancelled, expires_ms, paused, start_ms, stopped = fields[1], fields[2], fields[3], fields[4], fields[5],
    fields[9]
  if ended and ended ~= '' then return ended end
  if cancelled == '1' then return 'cancelled' end
  if stopped then return 'failed' end
  local expires, start = tonumber(expires_ms or 0), tonumber(start_ms or 0)
  if expires > 0 and expires <= now then return 'expired' end
  if paused == '1' then return 'paused' end
  if start > now then return 'scheduled' end
  return 'running'
end
