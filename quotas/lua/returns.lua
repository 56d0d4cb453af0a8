-- library
-- include: freeing.lua
-- include: tasks.lua
-- include: demand.lua
-- Granted envelopes that a worker gives back: {claim, lane, task, writer, attempt, first, count, size}.

-- Lets go of what the claim still holds of it; returns {tier, targets} to be refunded (none after the lease's end).
local function give_back(given, now)
  local member, refunds = given[1] .. '|' .. given[3], {}
  local claim = claim_of(member)
  if not claim then return refunds end
  local in_time = now < claim.lease_end_ms
  local taken, freeing = cut_claim(member, given[4], given[5], given[6], given[7]), 1
  undo[#undo + 1] = function()
    for i = freeing, #taken do claim.runs[#claim.runs + 1] = taken[i] end
  end
  for _, run in ipairs(taken) do
    local freed = free_run(given[3], run, given[1])
    freeing = freeing + 1
    tally(in_time and 'returned' or 'expired', run, freed)
    tally('used', run, run[4] - freed)
    if in_time and run[6] and run[5] ~= '' and freed > 0 then
      refunds[#refunds + 1] = { run[5], freed * run[6] }
    end
  end
  return refunds
end

local function refund(given, tier, targets, now)
  local task = task_of(given[3])
  if cap_level(task, now) then
    task.bucket = math.min(task.bucket + targets * UNIT, depth_of(task.cap, task.cap_burst))
  end
  local demand = read_demand(redis.call('HGET', P .. ':demand_of', given[2]))
  local weight = demand and demand.weight or 0
  if settings.caps.total then refund_pool(pool_of('total', now * 1000), given[2], tier, weight, targets) end
  for _, name in ipairs(pools_of(task.app, task.channel) or {}) do
    refund_pool(pool_of(name, now * 1000), given[2], tier, weight, targets)
  end
end
