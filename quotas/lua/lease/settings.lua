-- library
-- include: keys.lua
-- include: integers.lua
-- include: call.lua
-- include: pages.lua
-- include: flow_pauses.lua
-- constants: DEFAULT_WEIGHTS
-- The settings of the whole service (P:globals); for apps and channels, only those that a call needs.
local POOL_KEPT_MS = 600000

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

-- Returns the names of the pools, besides the total, that an app's tasks on a channel may share with others. The last
-- is its quota group's, once the settings have been read.
local function capped_by(app, channel)
  local group = call.globals['quota:' .. channel .. ':' .. app] or ''
  local quota = group ~= '' and 'quota/' .. group or nil
  return { 'channel/' .. channel, 'app/' .. app, 'app_channel/' .. app .. '/' .. channel, quota }
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
  call.field_names['quota:' .. channel .. ':' .. app] = true
  call.field_names['channel_paused:' .. channel] = true
  call.field_names['flow_paused:' .. channel .. ':' .. app] = true
  call.field_names['app_weight:' .. app] = true
end

-- Returns whether a pool is of one flow (an app on a channel), or of a quota group of flows.
function call.is_of_flow(name)
  return string.match(name, '^app_channel/') or string.match(name, '^quota/')
end

-- Returns which part of a pool's cap is used, in millionths, until when it does not grow, and when it is all again. A
-- provider that asks to slow down halves it (slow_flow.lua); then it grows by 5 % of the cap every ten seconds.
function call.factor_of(name, now)
  local values = redis.call('HMGET', P .. ':pool:' .. name, 'factor', 'slow_until_ms')
  if not values[1] then return 1000000, 0, 0 end
  local halved, until_ms = int(values[1]), int(values[2])
  local factor = math.min(halved + 50000 * div(math.max(now - until_ms, 0), 10000), 1000000)
  call.lowered[name] = until_ms + 10000 * math.ceil((1000000 - halved) / 50000)
  return factor, until_ms, call.lowered[name]
end

local function read_globals(fields)
  for i, value in ipairs(in_pages('HMGET', P .. ':globals', fields)) do call.globals[fields[i]] = value end
end

-- Reads the caps of the quota groups that were read, and what they count.
function call.read_quotas()
  local fields, seen = {}, {}
  for field, group in pairs(call.globals) do
    if group and group ~= '' and not seen[group] and string.match(field, '^quota:') then
      seen[group] = true
      fields[#fields + 1] = cap_field('quota/' .. group)
      fields[#fields + 1] = 'quota_unit:' .. group
    end
  end
  read_globals(fields)
end

-- Keeps a pool for a while, and a lowered cap until it is all again, also if the flow rests meanwhile.
function call.keep_pool(name, now)
  redis.call('PEXPIRE', P .. ':pool:' .. name, math.max(POOL_KEPT_MS, (call.lowered[name] or 0) - now))
end

-- Returns the rate of a pool at present: less than its cap while its provider has asked to slow down, and for a quota
-- group during the minute after a rest. A quota group draws a little less than its cap, so that requests that leave some
-- milliseconds late are not too many for any minute.
function call.rate_of(name, rate, now)
  if not call.is_of_flow(name) then return rate end
  local millionths = call.factor_of(name, now)
  if string.match(name, '^quota/') then millionths = div(millionths * 998 * call.ramp_of(name, now), 1000) end
  return math.max(mul_div(rate, millionths, 1000000), 1)
end

-- Returns whether a pool's cap counts requests; else it counts targets.
function call.counts_requests(name)
  local group = string.match(name, '^quota/(.*)$')
  return group ~= nil and call.globals['quota_unit:' .. group] == 'request'
end

-- Returns what `count` envelopes of `size` targets cost in a pool: targets or requests.
function call.cost_in(name, channel, count, size)
  if not call.settings.caps[name][3] then return count * size end
  local terms = call.channels[channel]
  local per_request = terms and terms[2] or 1
  return per_request > 0 and count * math.ceil(size / per_request) or count
end

-- Returns whether a pool is of the provider, and its cap has no burst: then the worker's door paces what is granted.
function call.is_paced(name)
  return name ~= 'total' and call.settings.caps[name][2] == 0 and not string.match(name, '^app/')
end

-- Returns the part of a quota group's cap that is used after a rest of a minute, from a sixtieth to 1; when it is all
-- again; and whether the group rests, so that it will begin when it is used next.
function call.ramp_state(name, now)
  local RAMP_MS = 60000
  local values = redis.call('HMGET', P .. ':pool:' .. name, 'refilled_us', 'ramp_ms')
  local began = int(values[2])
  local rests = now - div(int(values[1]), 1000) > RAMP_MS and now - began > RAMP_MS
  if rests then began = now end
  return math.min(math.max((now - began) / RAMP_MS, 1 / 60), 1), began + RAMP_MS, rests
end

-- Returns the part of a quota group's cap that is used, and notes that it begins if it has rested.
function call.ramp_of(name, now)
  local part, _, rests = call.ramp_state(name, now)
  if rests then
    redis.call('HSET', P .. ':pool:' .. name, 'ramp_ms', int_text(now))
    call.keep_pool(name, now)
  end
  return part
end

-- Reads the noted settings. The pools of each app and channel are those that have a cap.
local function read_settings(now)
  local fields = { 'capacity', 'tiers', 'sharing' }
  for field in pairs(call.field_names) do fields[#fields + 1] = field end
  read_globals(fields)
  call.read_quotas()
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
        call.settings.caps[name] = { call.rate_of(name, rate, now), burst, call.counts_requests(name) }
      end
    end
  end
end

local function pools_of(app, channel)
  return call.settings.pools[app .. '/' .. channel]
end

-- Returns whether nothing of an app on a channel may be sent now: the channel is paused, or the flow of the two.
local function is_stopped(app, channel, now)
  if call.globals['channel_paused:' .. channel] == '1' then return true end
  local pause = read_flow_pause(call.globals['flow_paused:' .. channel .. ':' .. app] or '', now)
  return pause ~= nil and pause.is_open
end

local function app_weight(app)
  return int(call.globals['app_weight:' .. app] or MILLI)
end
