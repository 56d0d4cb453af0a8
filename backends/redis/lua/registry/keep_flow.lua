-- library
-- include: keys.lua
-- include: flow_pauses.lua
-- P:flows (sorted set): flows that were paused, by the time when their entry means nothing any more.
-- constants: FLOW_KEPT_MS

-- Keeps P:flows in sync with the settings.
local function keep_flow(field, text)
  local flow, pause = string.match(field, '^flow_paused:(.*)$'), read_flow_pause(text, 0)
  if not flow or not pause then return end
  local over = pause.stops and pause.until_ms or pause.since_ms + FLOW_KEPT_MS
  if over > 0 and pause.doubted_to_ms > 0 then over = math.max(over, pause.doubted_to_ms + FLOW_KEPT_MS) end
  redis.call('ZADD', P .. ':flows', over == 0 and '+inf' or int_text(over), flow)
end
