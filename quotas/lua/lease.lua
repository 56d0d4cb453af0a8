-- Says which of the wanted envelopes one worker may send now, and claims those. Many lanes in one call; the same number
-- again gets the same answer. dispatcher/memory/lease_call.py does the same, in the same order.
--
-- KEYS[1] prefix
-- ARGV[1] msgpack of dispatcher.lease.LeaseRequest
-- Returns msgpack of dispatcher.lease.LeaseAnswer; the worker's last number if the one asked with is lower

-- include: keys.lua
-- include: clock.lua
-- include: request.lua
-- include: returns.lua
-- include: share.lua

local CALL_KEPT_MS = 60000
local request, now = cmsgpack.unpack(ARGV[1]), now_ms()
local worker, number, lease_ms, claim_ms, demand_ms = request[2], request[3], request[4], request[5], request[6]
local call_key, claim = P .. ':call:' .. worker, worker .. '.' .. whole(number)

local function globals()
  local got = redis.call('HMGET', P .. ':globals', 'capacity', 'tiers')
  local high, medium, low = string.match(got[2] or '', '^(%d+):(%d+):(%d+)$')
  local weights = { high = int(high or 6000), medium = int(medium or 3000), low = int(low or 1000) }
  return int(got[1]), weights
end

local capacity, weights = globals()

local function packed(ready, lanes)
  return cmsgpack.pack({ number, ready, lanes, capacity, { weights.high, weights.medium, weights.low } })
end

-- All pools by name; the names of those that bind; and these in a list.
local function open_pools()
  local pools, names, bound = {}, {}, {}
  for _, name in ipairs(ALL_POOLS) do pools[name] = load_pool(name, now * 1000) end
  if capacity > 0 then names, bound = { 'total' }, { pools.total } end
  return pools, names, bound
end

local function announce_all(lanes, pools, names)
  local asking = {}
  load_demand(lanes)
  for _, lane in ipairs(lanes) do
    announce_demand(lane, pools, names, now, demand_ms)
    if #lane.queue > 0 then asking[#asking + 1] = lane.name end
  end
  return asking
end

local function share_all(lanes, bound)
  for _, tier in ipairs(TIERS) do
    local drawing, granted = {}, 0
    for _, lane in ipairs(lanes) do
      if lane.tier == tier and #lane.queue > 0 then drawing[#drawing + 1] = lane end
    end
    share_tier(tier, drawing, bound, now)
    for _, lane in ipairs(drawing) do granted = granted + lane.granted end
    if granted > 0 then redis.call('HINCRBY', P .. ':stats', 'granted:' .. tier, whole(granted)) end
  end
end

local function lease()
  local lanes, refunds, runs = {}, {}, {}
  for i, given in ipairs(request[8]) do refunds[i] = give_back(given, now) end
  save_claims()
  for i, packed_lane in ipairs(request[7]) do lanes[i] = read_lane(packed_lane, now) end
  for _, lane in ipairs(lanes) do judge_lane(lane, now, claim) end
  local pools, names, bound = open_pools()
  forget_demand(pools, now)
  local asking = announce_all(lanes, pools, names)
  for _, pool in ipairs(bound) do
    refill_pool(pool, now * 1000, capacity, weights)
    if #asking > 0 then load_times(pool, asking) end
  end
  for i, targets in ipairs(refunds) do
    if targets > 0 then refund(request[8][i], targets, pools, capacity > 0, now) end
  end
  share_all(lanes, bound)
  local answer = answer_of(lanes, runs)
  for task, held in pairs(runs) do
    open_claim(claim .. '|' .. task, { end_ms = now + claim_ms, lease_end_ms = now + lease_ms, runs = held })
  end
  for _, pool in pairs(pools) do if capacity > 0 or pool.changed then save_pool(pool) end end
  for _, pool in ipairs(bound) do save_times(pool) end
  save_buckets()
  return answer
end

local last = redis.call('HMGET', call_key, 'number', 'answer')
if last[1] and tonumber(last[1]) == number then return last[2] end
if last[1] and tonumber(last[1]) > number then return tonumber(last[1]) end
local epoch = redis.call('HMGET', P .. ':epoch', 'ready', 'grants_after_ms')
if epoch[1] ~= '1' or int(epoch[2]) > now then return packed(false, held_answer(request[7])) end
local answer = packed(true, lease())
redis.call('HSET', call_key, 'number', whole(number), 'answer', answer)
redis.call('PEXPIRE', call_key, CALL_KEPT_MS)
return answer
