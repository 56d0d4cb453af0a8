-- library
-- include: keys.lua
-- include: integers.lua
-- include: call.lua
-- constants: DEFAULT_WEIGHTS
-- The settings of the whole service (P:globals); for apps and channels, only those that a call needs.

-- Parses `RATE` or `RATE:BURST`. Returns targets/s (0: no cap), and targets (0: a quarter of a second's).
local function read_cap(text)
  local rate, burst = string.match(text or '', '^(%d+):?(%d*)$')
  return int(rate), burst ~= '' and int(burst) or 0
end

-- Returns how much the buckets of a cap hold.
local function depth_of(rate, burst)
  return burst > 0 and burst * UNIT or math.max(rate * WINDOW_US, UNIT)
end

-- Returns the rate at which a bucket is credited for the time since it was last read. lowest: the lowest rate
-- meanwhile; 0: not known.
local function lowest_rate(lowest, rate)
  return lowest > 0 and math.min(lowest, rate) or rate
end

-- Returns the names of the pools, besides the total, that an app's tasks on a channel may share with others.
local function capped_by(app, channel)
  return { 'channel/' .. channel, 'app/' .. app, 'app_channel/' .. app .. '/' .. channel }
end

-- Returns the field that has the cap of a pool.
local function cap_field(name)
  return 'cap:' .. string.gsub(name, '/', ':', 1)
end

-- Notes that the call needs the settings of an app on a channel.
local function want_settings(app, channel)
  local pair = app .. '/' .. channel
  if call.settings.pools[pair] then return end
  call.settings.pools[pair] = {}
  for _, name in ipairs(capped_by(app, channel)) do
    call.field_names[cap_field(name)] = true
  end
  call.field_names['channel_paused:' .. channel] = true
  call.field_names['app_weight:' .. app] = true
end

local function read_globals(fields)
  for from = 1, #fields, 1000 do
    local to = math.min(from + 999, #fields)
    local values = redis.call('HMGET', P .. ':globals', unpack(fields, from, to))
    for i = from, to do call.globals[fields[i]] = values[i - from + 1] end
  end
end

-- Reads the noted settings. The pools of each app and channel are those that have a cap.
local function read_settings()
  local fields = { 'capacity', 'tiers', 'sharing' }
  for field in pairs(call.field_names) do fields[#fields + 1] = field end
  read_globals(fields)
  local high, medium, low = string.match(call.globals.tiers or '', '^(%d+):(%d+):(%d+)$')
  local default = DEFAULT_WEIGHTS
  call.settings.weights =
    { high = int(high or default.high), medium = int(medium or default.medium), low = int(low or default.low) }
  local capacity, burst = read_cap(call.globals.capacity)
  call.settings.capacity = capacity
  call.settings.caps.total = capacity > 0 and { capacity, burst } or nil
  call.settings.by_app = call.globals.sharing == 'apps'
  for pair, names in pairs(call.settings.pools) do
    for _, name in ipairs(capped_by(string.match(pair, '^(.*)/(.*)$'))) do
      local rate, burst = read_cap(call.globals[cap_field(name)])
      if rate > 0 then
        call.settings.any_cap, names[#names + 1] = true, name
        call.settings.caps[name] = { rate, burst }
      end
    end
  end
end

local function pools_of(app, channel)
  return call.settings.pools[app .. '/' .. channel]
end

local function is_stopped(channel)
  return call.globals['channel_paused:' .. channel] == '1'
end

local function app_weight(app)
  return int(call.globals['app_weight:' .. app] or MILLI)
end
