-- library
-- include: share.lua
-- include: why.lua
-- Counts a task's time by cause, while workers request leases. At most twice a second (less often with many lanes), a
-- request of any worker assigns the time since the task was last counted to the cause that holds it back at that
-- moment: its own cap (`task_cap`), the pool that binds its lane (`cap:<pool>`), no worker that holds its lane
-- (`no_worker`), or nothing (`sending`: it got everything requested). If the capacity itself holds a lane back, the
-- time is divided as the capacity was: between other tiers (`tier_share`), other apps (`app_weight`), other tasks
-- (`task_weight`) and the lane itself (`cap_total`). What first tries and retries of the tier, and its retry lanes, had
-- of each other counts as the lane's: no weight changes that, and it may be the same task. Time without requests is not counted, except between two attempts
-- (`retry_wait`, and `provider`, the call before it). COVERED_MS: a task that is held back is requested again within
-- this time.
-- constants: COVERED_MS
local count_causes
do
  local COUNT_EVERY_MS, COUNT_EVERY_AT_MOST_MS = 500, 2500

  -- Returns where the capacity went in that time, for a lane that the capacity holds back.
  local function parts_of_capacity(lane, ms)
    local pool, others = call.pools.total, 0
    local share, spare = pool.tiers[lane.tier], pool.lanes[lane.name].spare
    for _, tier in ipairs(TIERS) do
      local other = pool.tiers[tier]
      if tier ~= lane.tier then others = others + div(math.min(other.depth, other.wanted * UNIT), MILLI) end
    end
    local rest = ms - mul_div(ms, others, math.max(div(share.depth, MILLI), 1) + others)
    local side = side_of(lane)
    local busy, apps, of_side = math.max(share[side].busy, lane.weight), 0, part_of(share, side, rest)
    local is_alone = spare or side == 'retries'
    local peers = is_alone and 0 or mul_div(of_side, busy - lane.weight, busy)
    if call.settings.by_app and not is_alone then
      local of_app = lane.app ~= '' and app_weight(lane.app) * APP_SCALE or 0
      apps = mul_div(of_side, math.max(busy - math.max(of_app, lane.weight), 0), busy)
    end
    return { tier_share = ms - rest, app_weight = apps, task_weight = peers - apps, cap_total = rest - peers }
  end

  -- Returns what limits a lane after all is shared; only for a lane with demand left.
  local function held_back_by(lane, now)
    local level = lane.cap > 0 and cap_level(lane.task, now)
    if level and level <= 0 then return 'task_cap' end
    for i = #lane.bound, 1, -1 do
      local pool = lane.bound[i]
      if not pool_allows(pool, lane) then
        return pool.name == 'total' and 'total' or 'cap:' .. pool.name
      end
    end
    return 'sending'
  end

  -- Adds the time since the task was last counted to a cause, if it was requested throughout.
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

  -- Returns whether a worker holds the lane. The worker that announces it may not know that another one does.
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
    elseif #lane.queue > 0 or (#lane.wants == 0 and lane.asked > 0) then
      count_cause(lane.task, lane, 'sending', now, COVERED_MS)
    end
  end

  -- Counts the tasks in a lane of many tasks: envelopes left over are held back with the lane. If a task is retried and
  -- was not requested in between, it has waited for the retry, at most for the lane's delay, and was in its channel
  -- before.
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

  -- Counts the causes of all lanes; less often the more lanes a call has.
  function count_causes(lanes, now, waiting_ms)
    call.count_every_ms = math.min(math.max(2 * #lanes, COUNT_EVERY_MS), COUNT_EVERY_AT_MOST_MS)
    for _, lane in ipairs(lanes) do
      if lane.kind == 'o' then
        count_own(lane, now, waiting_ms)
      elseif not lane.parked then
        count_many(lane, now)
      end
    end
  end
end
