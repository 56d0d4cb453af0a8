-- library
-- include: keys.lua
-- When no worker served a channel, in the hash P:served: `first:<channel>` and `last:<channel>`, the times of the first
-- and the last heartbeat of a worker that has it, and `gaps:<channel>`, `<from>-<to> ...` in between. Those of the
-- channel '' are of all workers. `outages`: the spans in which no worker that was there reached Redis.
local ABSENT_MS, MAX_GAPS = 3000, 100

local function note_gap(field, from, to)
  local gaps = {}
  for gap in string.gmatch(redis.call('HGET', P .. ':served', field) or '', '%S+') do gaps[#gaps + 1] = gap end
  gaps[#gaps + 1] = whole(from) .. '-' .. whole(to)
  redis.call('HSET', P .. ':served', field, table.concat(gaps, ' ', math.max(1, #gaps - MAX_GAPS + 1)))
end

-- A worker that was started before the last heartbeat was there all along: Redis was not.
local function note_served(channel, started, now)
  local key = P .. ':served'
  local last = tonumber(redis.call('HGET', key, 'last:' .. channel) or now)
  if now - last > ABSENT_MS then
    if started > last then note_gap('gaps:' .. channel, last, now)
    elseif channel == '' then note_gap('outages', last, now) end
  end
  redis.call('HSET', key, 'last:' .. channel, whole(now))
  redis.call('HSETNX', key, 'first:' .. channel, whole(now))
end
