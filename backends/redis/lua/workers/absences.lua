-- library
-- include: keys.lua
-- Times when no worker served a channel, in the hash P:served. `first:<channel>` and `last:<channel>`: first and last
-- heartbeat of any worker that serves it. `gaps:<channel>`: the gaps between, as `<from>-<to> ...`. The channel ''
-- means all workers. A gap is longer than SUSPECT_MS. `outages`: spans in which running workers could not reach Redis.
-- constants: SUSPECT_MS
local MAX_GAPS = 100

local function note_gap(field, from, to)
  local gaps = {}
  for gap in string.gmatch(redis.call('HGET', P .. ':served', field) or '', '%S+') do gaps[#gaps + 1] = gap end
  gaps[#gaps + 1] = int_text(from) .. '-' .. int_text(to)
  redis.call('HSET', P .. ':served', field, table.concat(gaps, ' ', math.max(1, #gaps - MAX_GAPS + 1)))
end

-- If a worker started before the last heartbeat, it was running all along, and the gap was an outage of Redis.
local function note_served(channel, started, now)
  local key = P .. ':served'
  local last = tonumber(redis.call('HGET', key, 'last:' .. channel) or now)
  if now - last > SUSPECT_MS then
    if started > last then note_gap('gaps:' .. channel, last, now)
    elseif channel == '' then note_gap('outages', last, now) end
  end
  redis.call('HSET', key, 'last:' .. channel, int_text(now))
  redis.call('HSETNX', key, 'first:' .. channel, int_text(now))
end
