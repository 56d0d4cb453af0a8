-- library
-- include: keys.lua
-- When no worker served a channel, in the hash P:served: `first:<channel>` and `last:<channel>`, the times of the first
-- and the last heartbeat of a worker that has it, and `gaps:<channel>`, `<from>-<to> ...` in between. Those of the
-- channel '' are of all workers.
local ABSENT_MS, MAX_GAPS = 3000, 100

-- A worker that was started before the last heartbeat was there all along: Redis was not.
local function note_served(channel, started, now)
  local key = P .. ':served'
  local got = redis.call('HMGET', key, 'last:' .. channel, 'gaps:' .. channel)
  local last = tonumber(got[1] or now)
  if now - last > ABSENT_MS and started > last then
    local gaps = {}
    for gap in string.gmatch(got[2] or '', '%S+') do gaps[#gaps + 1] = gap end
    gaps[#gaps + 1] = whole(last) .. '-' .. whole(now)
    local from = math.max(1, #gaps - MAX_GAPS + 1)
    redis.call('HSET', key, 'gaps:' .. channel, table.concat(gaps, ' ', from))
  end
  redis.call('HSET', key, 'last:' .. channel, whole(now))
  redis.call('HSETNX', key, 'first:' .. channel, whole(now))
end
