-- library
-- include: freeing.lua
-- include: tasks.lua
-- include: demand.lua
-- Granted envelopes that a worker gives back: {claim, lane, task, writer, attempt, first, count, size}.

-- Lets go of what the claim still holds of it; returns the targets to be refunded (none after the lease's end).
local function give_back(given, now)
  local member, targets = given[1] .. '|' .. given[3], 0
  local claim = claim_of(member)
  if not claim then return 0 end
  for _, run in ipairs(cut_claim(member, given[4], given[5], given[6], given[7])) do
    local freed = free_run(given[3], run, given[1])
    if run[5] == 1 then targets = targets + freed * given[8] end
  end
  return now < claim.lease_end_ms and targets or 0
end

local function refund(given, targets, pools, limited, now)
  local task = task_of(given[3])
  if cap_level(task, now) then task.bucket = math.min(task.bucket + targets * UNIT, cap_depth(task.cap)) end
  local demand = read_demand(redis.call('HGET', P .. ':demand_of', given[2]))
  if not demand then return end
  redis.call('HINCRBY', P .. ':stats', 'returned:' .. demand.tier, whole(targets))
  if not limited then return end
  for _, name in ipairs(demand.pools) do
    refund_pool(pools[name], given[2], demand.tier, demand.weight, targets)
  end
end
