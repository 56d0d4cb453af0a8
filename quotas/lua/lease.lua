#!lua flags=allow-oom
-- Says which of the wanted envelopes one worker may send now, and claims those. Many lanes in one call; the same number
-- again gets the same answer.
--
-- KEYS[1] prefix
-- ARGV[1] msgpack of dispatcher.lease.LeaseRequest
-- Returns msgpack of dispatcher.lease.LeaseAnswer; the worker's last number if the one asked with is lower

-- include: keys.lua
-- include: clock.lua
-- include: form.lua
-- include: request.lua
-- include: returns.lua
-- include: share.lua
-- include: causes.lua

local CALL_KEPT_MS = 60000
local request, now = cmsgpack.unpack(ARGV[1]), now_ms()
local worker, number, lease_ms, claim_ms = request[2], request[3], request[4], request[5]
request.demand_ms, request.waiting_ms = request[6], request[9] or 3000
local call_key, claim = P .. ':call:' .. worker, worker .. '.' .. whole(number)

local function packed(ready, lanes)
  local weights = settings.weights
  local shares = { weights.high, weights.medium, weights.low }
  return cmsgpack.pack({ number, ready, lanes, settings.capacity, shares, now })
end

-- Reads the lanes and what their tasks, apps and channels are set to.
local function read_lanes()
  local lanes = {}
  for i, packed_lane in ipairs(request[7]) do lanes[i] = read_lane(packed_lane) end
  for _, given in ipairs(request[8]) do task_of(given[3]) end
  read_settings()
  return lanes
end

-- Opens the pools that have to do with the call, and gives each lane its own: their names, and the pools themselves.
local function open_pools(lanes)
  for name in pairs(settings.caps) do pool_of(name, now * 1000) end
  for _, lane in ipairs(lanes) do
    local names = {}
    if settings.caps.total and lane.tier ~= '' then names[1] = 'total' end
    for _, name in ipairs(lane.app ~= '' and pools_of(lane.app, lane.channel) or {}) do names[#names + 1] = name end
    lane.pools, lane.bound = table.concat(names, ','), {}
    for i, name in ipairs(names) do lane.bound[i] = pools_read[name] end
  end
end

local function share_all(lanes)
  for _, tier in ipairs(TIERS) do
    local drawing, granted = {}, 0
    for _, lane in ipairs(lanes) do
      if lane.tier == tier and #lane.queue > 0 and not lane.parked then drawing[#drawing + 1] = lane end
    end
    share_tier(tier, drawing, now)
    for _, lane in ipairs(drawing) do granted = granted + lane.granted end
    if granted > 0 then
      redis.call('HINCRBY', P .. ':stats', 'granted:' .. tier, whole(granted))
      undo[#undo + 1] = function() redis.call('HINCRBY', P .. ':stats', 'granted:' .. tier, whole(-granted)) end
    end
  end
end

local function save_all()
  for name, pool in pairs(pools_read) do
    if settings.caps[name] or pool.changed then save_pool(pool) end
    save_times(pool)
  end
  save_parts()
  save_buckets()
end

local function lease(lanes)
  local refunds, runs = {}, {}
  for i, given in ipairs(request[8]) do refunds[i] = give_back(given, now) end
  save_claims()
  save_tally()
  for _, lane in ipairs(lanes) do place(lane, now) end
  for _, lane in ipairs(lanes) do judge_lane(lane, now, claim) end
  forget_demand(now)
  open_pools(lanes)
  announce_all(lanes, now, request)
  for name in pairs(settings.caps) do refill_pool(pools_read[name], now * 1000) end
  for i, amounts in ipairs(refunds) do
    for _, amount in ipairs(amounts) do refund(request[8][i], amount[1], amount[2], now) end
  end
  enter_all(lanes)
  share_all(lanes)
  count_causes(lanes, now, request.waiting_ms)
  local answer = answer_of(lanes, runs)
  for task, held in pairs(runs) do
    open_claim(claim .. '|' .. task, { end_ms = now + claim_ms, lease_end_ms = now + lease_ms, runs = held })
  end
  save_all()
  return answer
end

-- The lease of a call that is made for the first time, or an error if it could not be carried out.
local function try_lease()
  local done, answer = pcall(function() return packed(true, lease(read_lanes())) end)
  if done then return answer end
  for i = #undo, 1, -1 do undo[i]() end
  save_claims()
  save_tally()
  return redis.error_reply(type(answer) == 'table' and answer.err or tostring(answer))
end

local function answer_call()
  local last = redis.call('HMGET', call_key, 'number', 'answer')
  if last[1] and tonumber(last[1]) == number then return last[2] end
  if last[1] and tonumber(last[1]) > number then return tonumber(last[1]) end
  local epoch = redis.call('HMGET', P .. ':epoch', 'ready', 'grants_after_ms', 'claim_ms')
  if epoch[1] ~= '1' or int(epoch[2]) > now or is_closed_view() then
    read_settings()
    return packed(false, held_answer(request[7]))
  end
  -- Nothing is granted for this long after a restart of Redis (backends/lua/note_restart.lua).
  if int(epoch[3]) < claim_ms then redis.call('HSET', P .. ':epoch', 'claim_ms', whole(claim_ms)) end
  local answer = try_lease()
  if type(answer) == 'string' then
    redis.call('HSET', call_key, 'number', whole(number), 'answer', answer)
    redis.call('PEXPIRE', call_key, CALL_KEPT_MS)
  end
  return answer
end

return answer_call()
