#!lua flags=allow-oom
-- Decides which of the wanted envelopes a worker may send now, and claims those. One call serves many lanes; repeating
-- a call's number returns the same answer.
--
-- KEYS[1] prefix
-- ARGV[1] msgpack of dispatcher.wire.lease.LeaseRequest
-- Returns msgpack of dispatcher.wire.lease.LeaseAnswer; the worker's last number if the request's number is lower

-- include: keys.lua
-- include: clock.lua
-- include: form.lua
-- include: request.lua
-- include: share.lua
-- include: causes.lua

local CALL_KEPT_MS = 60000
local request, now = read_request(ARGV[1]), now_ms()
local number, lanes = request.number, request.lanes
local call_key, claim = P .. ':call:' .. request.worker, request.worker .. '.' .. int_text(number)
call.shared_namespace = request.shared_namespace

local function packed(ready, answer)
  local weights = call.settings.weights
  local shares = { weights.high, weights.medium, weights.low }
  local names, paces = {}, {}
  for name in pairs(call.paces) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do paces[i] = call.paces[name] end
  return cmsgpack.pack({ number, ready, answer, call.settings.capacity, shares, now, paces })
end

-- Reads the settings of the lanes' tasks, apps and channels.
local function look_up_all()
  call.holds_unrecorded = redis.call('EXISTS', P .. ':unrecorded') == 1
  for _, lane in ipairs(lanes) do look_up(lane) end
  for _, given in ipairs(request.given_back) do task_of(given.task) end
  read_settings(now)
end

-- Opens the pools that the call needs, and assigns each lane its pools, by name and as tables.
local function open_pools()
  for name in pairs(call.settings.caps) do pool_of(name, now * 1000) end
  for _, lane in ipairs(lanes) do
    local names = {}
    if call.settings.caps.total and lane.tier ~= '' then names[1] = 'total' end
    for _, name in ipairs(lane.app ~= '' and pools_of(lane.app, lane.channel) or {}) do names[#names + 1] = name end
    lane.pools, lane.bound = table.concat(names, ','), {}
    for i, name in ipairs(names) do lane.bound[i] = call.pools[name] end
  end
end

local function share_all()
  for _, tier in ipairs(TIERS) do
    local drawing, granted = {}, 0
    for _, lane in ipairs(lanes) do
      if lane.tier == tier and #lane.queue > 0 and not lane.parked then drawing[#drawing + 1] = lane end
    end
    share_tier(tier, drawing, now)
    for _, lane in ipairs(drawing) do granted = granted + lane.granted end
    if granted > 0 then
      redis.call('HINCRBY', P .. ':stats', 'granted:' .. tier, int_text(granted))
      call.undo[#call.undo + 1] = function()
        redis.call('HINCRBY', P .. ':stats', 'granted:' .. tier, int_text(-granted))
      end
    end
  end
end

local function save_all()
  for name, pool in pairs(call.pools) do
    if call.settings.caps[name] or pool.changed then save_pool(pool) end
    save_times(pool)
  end
  save_parts()
  save_buckets()
end

local function lease()
  local refunds, runs = {}, {}
  look_up_all()
  for i, given in ipairs(request.given_back) do refunds[i] = give_back(given, now) end
  save_claims()
  save_tally()
  for _, lane in ipairs(lanes) do resolve_lane(lane, now) end
  for _, lane in ipairs(lanes) do judge_lane(lane, now, claim) end
  forget_demand(now)
  open_pools()
  announce_all(lanes, now, request)
  for name in pairs(call.settings.caps) do refill_pool(call.pools[name], now * 1000) end
  for i, amounts in ipairs(refunds) do
    for _, amount in ipairs(amounts) do refund(request.given_back[i], amount, now) end
  end
  enter_all(lanes)
  share_all()
  count_causes(lanes, now, request.waiting_ms)
  local answer = answer_of(lanes, runs)
  for task, claimed in pairs(runs) do
    local terms = call.channels[task_of(task).channel]
    open_claim(claim .. '|' .. task, {
      end_ms = now + (terms and terms[1] or request.claim_ms), lease_end_ms = now + request.lease_ms, runs = claimed,
      granted_ms = now,
    })
  end
  save_all()
  return answer
end

-- Returns the lease for a call made for the first time, or an error after undoing a failed one.
local function try_lease()
  local done, answer = pcall(function() return packed(true, lease()) end)
  if done then return answer end
  for i = #call.undo, 1, -1 do call.undo[i]() end
  save_claims()
  save_tally()
  forget_demand_of_all()
  return redis.error_reply(type(answer) == 'table' and answer.err or tostring(answer))
end

local function answer_call()
  local last = redis.call('HMGET', call_key, 'number', 'answer')
  if last[1] and tonumber(last[1]) == number then return last[2] end
  if last[1] and tonumber(last[1]) > number then return tonumber(last[1]) end
  local epoch = redis.call('HMGET', P .. ':epoch', 'ready', 'grants_after_ms', 'claim_ms')
  if epoch[1] ~= '1' or int(epoch[2]) > now or is_closed_view() then
    read_settings(now)
    return packed(false, held_answer(lanes))
  end
  -- claim_ms is how long nothing is granted after a restart of Redis (backends/redis/lua/view/note_restart.lua).
  if int(epoch[3]) < request.claim_ms then redis.call('HSET', P .. ':epoch', 'claim_ms', int_text(request.claim_ms)) end
  local answer = try_lease()
  if type(answer) == 'string' then
    redis.call('HSET', call_key, 'number', int_text(number), 'answer', answer)
    redis.call('PEXPIRE', call_key, CALL_KEPT_MS)
  end
  return answer
end

return answer_call()
