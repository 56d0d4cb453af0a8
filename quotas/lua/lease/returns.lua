-- library
-- include: freeing.lua
-- include: tasks.lua
-- include: demand.lua
-- Granted envelopes that a worker gives back.

local function read_given_back(fields)
  local given = { claim = fields[1], lane = fields[2], task = fields[3], writer = fields[4] }
  given.attempt, given.first, given.count = fields[5], fields[6], fields[7]
  return given
end

-- Frees the given-back envelopes that the claim still holds; returns {tier, count, size} to refund (none after the
-- lease's end).
local function give_back(given, now)
  local member, refunds = given.claim .. '|' .. given.task, {}
  local claim = claim_of(member)
  if not claim then return refunds end
  local in_time = now < claim.lease_end_ms
  local returned, freeing = cut_claim(member, { given }), 1
  call.undo[#call.undo + 1] = function()
    for i = freeing, #returned do claim.runs[#claim.runs + 1] = returned[i] end
  end
  for _, run in ipairs(returned) do
    local freed = free_run(given.task, run, given.claim)
    freeing = freeing + 1
    tally(in_time and 'returned' or 'expired', run, freed * run.size)
    tally('used', run, (run.count - freed) * run.size)
    if in_time and run.paid ~= '' and freed > 0 then
      refunds[#refunds + 1] = { tier = run.paid, count = freed, size = run.size }
    end
  end
  return refunds
end

-- A paced cap refunds nothing: the time at which these targets might have been sent is passing, and the grants of others
-- follow it. To grant it again would be to send more than the cap.
local function refund(given, paid, now)
  local task, tier, targets = task_of(given.task), paid.tier, paid.count * paid.size
  if cap_level(task, now) then
    task.bucket = math.min(task.bucket + targets * UNIT, depth_of(task.cap, task.cap_burst))
  end
  local demand = read_demand(redis.call('HGET', P .. ':demand_of', given.lane))
  local weight = demand and demand.weight or 0
  if call.settings.caps.total then refund_pool(pool_of('total', now * 1000), given.lane, tier, weight, targets) end
  for _, name in ipairs(pools_of(task.app, task.channel) or {}) do
    local cost = call.cost_in(name, task.channel, paid.count, paid.size)
    if not call.is_paced(name) then refund_pool(pool_of(name, now * 1000), given.lane, tier, weight, cost) end
  end
end
