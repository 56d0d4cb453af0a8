#!lua flags=no-writes
-- Reads the part of a backlog snapshot that concerns the whole service.
--
-- KEYS[1] prefix
-- Returns {now_ms, epoch, 1 if the view is complete, {field, value...} of the settings, {name, value...} of the
-- counters, {pool, {field, value...}...} of the pools that have a cap, {seen_ms, heartbeat...} of the workers}

-- include: keys.lua
-- include: clock.lua

local epoch = redis.call('HMGET', P .. ':epoch', 'id', 'ready')
local globals = redis.call('HGETALL', P .. ':globals')

local pools = { 'total', redis.call('HGETALL', P .. ':pool:total') }
for place = 1, #globals, 2 do
  local name = string.match(globals[place], '^cap:(.*)$')
  if name then
    name = string.gsub(name, ':', '/', 1)
    pools[#pools + 1] = name
    pools[#pools + 1] = redis.call('HGETALL', P .. ':pool:' .. name)
  end
end

local beats = {}
local listed = redis.call('ZRANGE', P .. ':workers', 0, -1, 'WITHSCORES')
for place = 1, #listed, 2 do
  local beat = redis.call('GET', P .. ':worker:' .. listed[place])
  if beat then
    beats[#beats + 1] = tonumber(listed[place + 1])
    beats[#beats + 1] = beat
  end
end

local ready = epoch[2] == '1' and 1 or 0
return { now_ms(), epoch[1] or '', ready, globals, redis.call('HGETALL', P .. ':stats'), pools, beats }
