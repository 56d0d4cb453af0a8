-- library
-- Pauses of a flow (an app on a channel), in the settings under `flow_paused:<channel>:<app>`, as
-- dispatcher/model/flow_pause.py writes them: `<until_ms>|<kind>|<since_ms>|<credential>|...`, and then
-- `<from_ms>-<to_ms>|` if reports of that time are doubted.

-- Returns the entry in a text, nil for none. stops: it is a pause, and not the end of one. is_open: nothing of the flow
-- may be sent at this time.
local function read_flow_pause(text, now)
  local until_ms, kind, since_ms = string.match(text or '', '^(%d+)|([a-z_]+)|(%d+)|')
  if not until_ms then return nil end
  local pause = { until_ms = tonumber(until_ms), kind = kind, since_ms = tonumber(since_ms) }
  pause.doubted_to_ms = tonumber(string.match(text, '^%d+|[a-z_]+|%d+|[^|]*|%d+%-(%d+)|') or 0)
  pause.stops = kind ~= 'ended' and kind ~= 'confirmed'
  pause.is_open = pause.stops and (pause.until_ms == 0 or now < pause.until_ms)
  return pause
end
