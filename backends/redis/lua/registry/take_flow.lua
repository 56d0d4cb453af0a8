#!lua flags=allow-oom
-- Takes the right to write the next entry of a flow, so that several workers that meet the same trouble write one
-- pause. It is given to one caller, for FLOW_LOCK_MS or until `P:pausing:<flow>` is deleted, and only if the entry would
-- change something: a pause replaces a milder one, an end needs a pause.
--
-- KEYS[1] prefix
-- ARGV[1] flow, [2] kind of the entry
-- Returns {1 if the caller may write it now, now_ms, the present entry or ''}

-- include: keys.lua
-- include: clock.lua
-- include: flow_pauses.lua

local FLOW_LOCK_MS = 5000
local GRAVITY = { limit = 1, down = 2, suspect = 3, credentials = 4, hand = 5 }
local flow, kind = ARGV[1], ARGV[2]
local now, entry = now_ms(), redis.call('HGET', P .. ':globals', 'flow_paused:' .. flow) or ''

local function changes_something()
  local present = read_flow_pause(entry, now) or {}
  if not GRAVITY[kind] then return present.is_open end
  if present.is_open then return GRAVITY[kind] > (GRAVITY[present.kind] or GRAVITY.hand) end
  return not (kind == 'suspect' and present.kind == 'confirmed' and now < present.until_ms)
end

if not changes_something() then return { 0, now, entry } end
if not redis.call('SET', P .. ':pausing:' .. flow, '1', 'NX', 'PX', FLOW_LOCK_MS) then return { 0, now, entry } end
return { 1, now, entry }
