-- library
-- include: share.lua
-- include: why.lua
-- What a task's time goes to, counted while leases are asked for. Twice a second at most (less often where lanes are
-- many), whichever worker asks, the time since a task was counted last is given to what holds it back at that moment:
-- its own cap (`task_cap`), the pool that binds its lane (`cap:<pool>`), that no worker holds its lane (`no_worker`),
-- or nothing (`sending`: it got all that was asked for). Of a lane that the capacity itself holds back, the time is
-- divided as the capacity was: what other tiers had (`tier_share`), other apps (`app_weight`), tasks (`task_weight`),
-- and itself (`cap_total`). Time in which nobody asked is given to nothing, but for that between one attempt and the
-- next (`retry_wait`, and `provider`, the call before it). COVERED_MS: within this a task that is held back is asked
-- about again.
local COUNT_EVERY_MS, COUNT_EVERY_AT_MOST_MS = 500, 2500
local COVERED_MS = 3000

-- Of a lane that the capacity holds back: where the capacity went in that time.
local function parts_of_capacity(lane, ms)
  local pool, theirs = call.pools.total, 0
  local share, spare = pool.tiers[lane.tier], pool.lanes[lane.name].spare
  for _, tier in ipairs(TIERS) do
    local other = pool.tiers[tier]
    if tier ~= lane.tier then theirs = theirs + div(math.min(other.depth, other.wanted * UNIT), MILLI) end
  end
  local rest = ms - mul_div(ms, theirs, math.max(div(share.depth, MILLI), 1) + theirs)
  local busy, apps = math.max(share.busy, lane.weight), 0
  local peers = spare and 0 or mul_div(rest, busy - lane.weight, busy)
  if call.settings.by_app and not spare then
    local of_app = lane.app ~= '' and app_weight(lane.app) * APP_SCALE or 0
    apps = mul_div(rest, math.max(busy - math.max(of_app, lane.weight), 0), busy)
  end
  return { tier_share = ms - rest, app_weight = apps, task_weight = peers - apps, cap_total = rest - peers }
end

-- What keeps a lane from more, now that all is shared; only where something is left that it wants.
local function held_back_by(lane, now)
  local level = lane.cap > 0 and cap_level(lane.task, now)
  if level and level <= 0 then return 'task_cap' end
  for i = #lane.bound, 1, -1 do
    local pool = lane.bound[i]
    if not pool_allows(pool, lane.name, lane.tier) then
      return pool.name == 'total' and 'total' or 'cap:' .. pool.name
    end
  end
  return 'sending'
end

-- Gives the time since the task was counted last to a cause, if it was asked for all along.
local function count_cause(task, lane, cause, now, covered)
  local ms = now - task.why_ms
  if task.why_ms > 0 and ms <= covered then
    return add_causes(task, cause == 'total' and parts_of_capacity(lane, ms) or { [cause] = ms }, now)
  end
  add_causes(task, {}, now)
end

local function is_due(task, now)
  return now - task.why_ms >= call.count_every_ms
end

-- Who announces a lane need not know that another worker holds it.
local function is_held(lane, now)
  return lane.demand and lane.demand.held > now
end

local function count_own(lane, now, waiting_ms)
  if lane.parked or not is_due(lane.task, now) then return end
  if lane.waiting and lane.asked > 0 then
    if is_held(lane, now) then return end
    count_cause(lane.task, lane, 'no_worker', now, math.max(waiting_ms, COVERED_MS))
  elseif lane.queue[lane.head] then
    count_cause(lane.task, lane, held_back_by(lane, now), now, COVERED_MS)
  elseif #lane.queue > 0 or (#lane.wanted == 0 and lane.asked > 0) then
    count_cause(lane.task, lane, 'sending', now, COVERED_MS)
  end
end

-- The tasks in a lane of many: what is left of them is held back with the lane. One that is tried again and was not
-- asked about in between has waited for it, at most as long as the lane delays, and was in its channel before that.
local function count_many(lane, now)
  local cause, delay_ms = nil, lane.delay_ms
  for i = #lane.queue, 1, -1 do
    local segment = lane.queue[i]
    local task = call.tasks[segment.want.task]
    if is_due(task, now) and segment.waits == NO_CREDIT then
      if delay_ms > 0 and now - task.why_ms >= math.min(delay_ms, COVERED_MS) then
        local waited = math.min(now - task.why_ms, delay_ms)
        local sent_ms = now - task.why_ms - waited
        add_causes(task, { retry_wait = waited, provider = sent_ms <= COVERED_MS and sent_ms or 0 }, now)
      elseif segment.granted < segment.count then
        cause = cause or held_back_by(lane, now)
        count_cause(task, lane, cause, now, COVERED_MS)
      elseif task.why_ms > 0 then
        count_cause(task, lane, 'sending', now, COVERED_MS)
      end
    end
  end
end

-- The more lanes there are in a call, the less often.
local function count_causes(lanes, now, waiting_ms)
  call.count_every_ms = math.min(math.max(2 * #lanes, COUNT_EVERY_MS), COUNT_EVERY_AT_MOST_MS)
  for _, lane in ipairs(lanes) do
    if lane.kind == 'o' then
      count_own(lane, now, waiting_ms)
    elseif not lane.parked then
      count_many(lane, now)
    end
  end
end
