-- library
-- include: settings.lua
-- Sharing by apps: P:parts (hash `<tier> <app>`): summed weights of an app's lanes that have demand. A lane's weight is
-- then its part of its app's weight, so that apps share by their weights, for any number of tasks.
local APP_SCALE = 100
local PARTS_KEPT_MS = 600000

local function part_field(tier, app)
  return tier .. ' ' .. app
end

local function parts_of(tier, app)
  local field = part_field(tier, app)
  call.parts[field] = call.parts[field] or int(redis.call('HGET', P .. ':parts', field))
  return call.parts[field]
end

local function count_part(tier, app, part)
  if part == 0 then return end
  local field = part_field(tier, app)
  call.parts[field] = parts_of(tier, app) + part
end

-- Returns the weight of a lane that counts as one task, or with sharing by apps as one app.
local function unit_weight()
  return call.settings.by_app and MILLI * APP_SCALE or MILLI
end

-- Returns the lane's weight: its task's, or with sharing by apps its part of its app's. A lane with tasks of many apps
-- counts as one app.
local function weight_in_tier(lane)
  if not call.settings.by_app then return lane.weight end
  if lane.app == '' then return unit_weight() end
  local of_app = app_weight(lane.app) * APP_SCALE
  return math.max(mul_div(of_app, lane.part, parts_of(lane.tier, lane.app)), 1)
end

local function save_parts()
  for field, sum in pairs(call.parts) do
    if sum > 0 then
      redis.call('HSET', P .. ':parts', field, int_text(sum))
      redis.call('PEXPIRE', P .. ':parts', PARTS_KEPT_MS)
    else
      redis.call('HDEL', P .. ':parts', field)
    end
  end
end
