-- library
-- include: keys.lua
-- include: integers.lua
-- The settings of the whole service (P:globals): of those of apps and channels, only what a call needs.
local settings = { caps = {}, pools = {} }
local globals_read, globals_wanted = {}, {}

-- `RATE` or `RATE:BURST`: targets/s (0: none), and targets (0: a quarter of a second).
local function read_cap(text)
  local rate, burst = string.match(text or '', '^(%d+):?(%d*)$')
  return int(rate), burst ~= '' and int(burst) or 0
end

-- What the buckets of a cap hold.
local function depth_of(rate, burst)
  return burst > 0 and burst * UNIT or math.max(rate * WINDOW_US, UNIT)
end

-- At what rate a bucket is credited with the time since it was last read. kept: the lowest meanwhile; 0: not known.
local function lowest_rate(kept, rate)
  return kept > 0 and math.min(kept, rate) or rate
end

-- Names of the pools, besides the total, that an app's tasks on a channel may share with others.
local function capped_by(app, channel)
  return { 'channel/' .. channel, 'app/' .. app, 'app_channel/' .. app .. '/' .. channel }
end

-- Notes that the call has to do with an app on a channel.
local function want_settings(app, channel)
  local pair = app .. '/' .. channel
  if settings.pools[pair] then return end
  settings.pools[pair] = {}
  for _, name in ipairs(capped_by(app, channel)) do
    globals_wanted['cap:' .. string.gsub(name, '/', ':', 1)] = true
  end
  globals_wanted['channel_paused:' .. channel] = true
  globals_wanted['app_weight:' .. app] = true
end

local function read_globals(fields)
  for from = 1, #fields, 1000 do
    local to = math.min(from + 999, #fields)
    local got = redis.call('HMGET', P .. ':globals', unpack(fields, from, to))
    for i = from, to do globals_read[fields[i]] = got[i - from + 1] end
  end
end

-- Reads what was noted: the pools of each app and channel are those that have a cap.
local function read_settings()
  local fields = { 'capacity', 'tiers', 'sharing' }
  for field in pairs(globals_wanted) do fields[#fields + 1] = field end
  read_globals(fields)
  local high, medium, low = string.match(globals_read.tiers or '', '^(%d+):(%d+):(%d+)$')
  settings.weights = { high = int(high or 6000), medium = int(medium or 3000), low = int(low or 1000) }
  settings.capacity, settings.capacity_burst = read_cap(globals_read.capacity)
  settings.caps.total = settings.capacity > 0 and { settings.capacity, settings.capacity_burst } or nil
  settings.by_app = globals_read.sharing == 'apps'
  for pair, names in pairs(settings.pools) do
    for _, name in ipairs(capped_by(string.match(pair, '^(.*)/(.*)$'))) do
      local rate, burst = read_cap(globals_read['cap:' .. string.gsub(name, '/', ':', 1)])
      if rate > 0 then
        settings.any_cap, names[#names + 1] = true, name
        settings.caps[name] = { rate, burst }
      end
    end
  end
end

local function pools_of(app, channel)
  return settings.pools[app .. '/' .. channel]
end

local function is_stopped(channel)
  return globals_read['channel_paused:' .. channel] == '1'
end

local function app_weight(app)
  return int(globals_read['app_weight:' .. app] or MILLI)
end
