-- library
-- include: app_parts.lua
-- include: demand.lua
-- Records the demand of a call's lanes. lane.has_demand: its demand is counted; lane.idle: it had no demand before;
-- lane.was_unattended: it had demand, and no worker held it.

local announce_all, enter_all
do
  -- Counts the lane's part of its app, before the weights of lanes are computed from it.
  local function take_part(lane)
    local old = lane.demand
    if old then count_part(old.tier, old.app, -old.part) end
    lane.has_demand, lane.part = not lane.parked and lane.pools ~= '' and (lane.asked > 0 or old ~= nil), 0
    if call.settings.by_app and lane.app ~= '' and lane.has_demand then
      lane.part = lane.weight
      count_part(lane.tier, lane.app, lane.part)
    end
  end

  -- Returns the targets in what a pool lets through: where it counts requests, those of the lane's largest envelopes.
  local function targets_in(name, lane, amount)
    if not call.settings.caps[name][3] then return amount end
    local size = lane.task and lane.task.chunk or 1
    for _, want in ipairs(lane.wants) do size = math.max(size, want.size) end
    return div(amount * size, call.cost_in(name, lane.channel, 1, size))
  end

  -- Returns the lane's demand, at most what its caps let through in a window: its task's cap, and its part of its
  -- pools' caps. So its tier withholds no more of the capacity from the others than it can use.
  local function within_caps(lane, now)
    local targets = lane.asked
    if lane.cap > 0 then targets = math.min(targets, div(depth_of(lane.cap, lane.cap_burst), UNIT)) end
    for _, name in ipairs(list_of(lane.pools)) do
      if name ~= 'total' then
        local share = pool_of(name, now * 1000).tiers[lane.tier]
        local all = share.fresh.busy + share.fresh.waiting + lane.weight
        local part = div(mul_div(depth_of(unpack(call.settings.caps[name])), lane.weight, all), UNIT)
        targets = math.min(targets, math.max(targets_in(name, lane, part), 1))
      end
    end
    return targets
  end

  -- Returns the lane's new demand. The largest recent one counts, so that a worker with an empty buffer does not hide
  -- the demand of another.
  local function renewed(lane, now, request)
    local until_ms = now + (lane.waiting and request.waiting_ms or request.demand_ms)
    local targets, old = within_caps(lane, now), lane.demand
    local demand = { kind = lane.kind, tier = lane.tier, weight = lane.weight, targets = targets }
    demand.targets_until, demand.until_ms = until_ms, until_ms
    demand.held, demand.pools, demand.part = lane.waiting and 0 or until_ms, lane.pools, lane.part
    demand.waiting, demand.app = lane.waiting, lane.app ~= '' and lane.app or '-'
    if old and old.targets > targets and old.targets_until > now then
      demand.targets, demand.targets_until = old.targets, old.targets_until
    end
    if old then
      demand.until_ms = math.max(old.until_ms, targets > 0 and until_ms or 0)
      demand.held = math.max(old.held, demand.held)
    end
    return demand
  end

  local function announce_demand(lane, now, request)
    local old = lane.demand
    if old then count_demand(old, -1, now) end
    lane.idle = not old
    if not lane.has_demand then
      if old then keep_debt(lane.name, old.pools, now) end
      return
    end
    lane.weight = weight_in_tier(lane)
    lane.was_unattended = old and not lane.waiting and old.held <= now
    lane.demand = renewed(lane, now, request)
    if lane.before ~= lane.pools then leave_pools(lane.name, lane.before, lane.pools) end
    count_demand(lane.demand, 1, now)
    write_demand(lane.name, lane.demand)
  end

  function announce_all(lanes, now, request)
    load_demand(lanes)
    for _, lane in ipairs(lanes) do take_part(lane) end
    for _, lane in ipairs(lanes) do announce_demand(lane, now, request) end
    save_demand()
  end

  -- Enters lanes into their pools if they may draw, or if they start or stop waiting.
  function enter_all(lanes)
    local entering, names = {}, {}
    for _, lane in ipairs(lanes) do
      if lane.has_demand and (#lane.queue > 0 or lane.was_unattended or (lane.waiting and lane.idle)) then
        entering[#entering + 1] = lane
      end
    end
    for _, lane in ipairs(entering) do
      for _, name in ipairs(list_of(lane.pools)) do
        names[name] = names[name] or {}
        if not call.pools[name].lanes[lane.name] then names[name][#names[name] + 1] = lane.name end
      end
    end
    for name, missing in pairs(names) do load_times(call.pools[name], missing) end
    for _, lane in ipairs(entering) do
      for _, pool in ipairs(lane.bound) do enter_pool(pool, lane) end
    end
    for name in pairs(names) do settle_in(call.pools[name]) end
  end
end
