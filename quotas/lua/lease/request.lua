-- library
-- include: statuses.lua
-- include: claims.lua
-- include: announce.lua
-- include: returns.lua
-- Unpacks a lease request (dispatcher.wire.lease.LeaseRequest) and builds its answer.

local read_request, look_up, resolve_lane, judge_lane, answer_of, held_answer
do
  local function read_want(fields)
    local want = { task = fields[1], writer = fields[2], attempt = fields[3] }
    want.first, want.count, want.size = fields[4], fields[5], fields[6]
    want.open, want.tries, want.due_ms = fields[8] > 0 and fields[8] or fields[6], fields[9], fields[10]
    want.first_ms = fields[11]
    return want
  end

  -- Reads a lane. Its task, app and channel are '' if it does not belong to a single one.
  local function read_lane(fields)
    local lane = { name = fields[1], kind = fields[2], tier = fields[3], asked_for = fields[4], wants = {} }
    for i, want in ipairs(fields[5]) do lane.wants[i] = read_want(want) end
    lane.waiting = fields[6] and #lane.wants == 0
    lane.task_id, lane.app, lane.channel, lane.delay_ms = fields[7], fields[8], fields[9], 1000 * fields[10]
    return lane
  end

  function read_request(packed)
    local fields = cmsgpack.unpack(packed)
    local request = { worker = fields[2], number = fields[3], lease_ms = fields[4], claim_ms = fields[5] }
    request.demand_ms = fields[6]
    request.lanes, request.given_back, request.waiting_ms, request.shared_namespace = {}, {}, fields[9], fields[10]
    call.channels = fields[11]
    for i, lane in ipairs(fields[7]) do request.lanes[i] = read_lane(lane) end
    for i, given in ipairs(fields[8]) do request.given_back[i] = read_given_back(given) end
    return request
  end

  -- Reads the tasks of a lane, and notes which settings the call needs.
  function look_up(lane)
    lane.segments, lane.queue, lane.head, lane.granted = {}, {}, 1, 0
    if lane.kind == 'd' then want_settings(lane.app, lane.channel) else lane.app, lane.channel = '', '' end
    if lane.kind == 'o' then lane.task = task_of(lane.task_id) end
    for _, want in ipairs(lane.wants) do
      note_want(want)
      task_of(want.task)
    end
  end

  -- Sets the lane's current tier, weight and caps. lane.parked: its own task, or its channel, may not be sent now.
  -- lane.app, lane.channel: those of everything in the lane; empty for a lane of many tasks.
  function resolve_lane(lane, now)
    lane.weight, lane.cap, lane.parked = MILLI, 0, false
    if lane.kind == 's' then
      local weight = int(redis.call('HGET', lane_key(lane.name), 'weight'))
      lane.tier, lane.weight = 'low', weight > 0 and weight or MILLI
    elseif lane.kind == 'd' then
      lane.tier, lane.parked = 'low', is_stopped(lane.app, lane.channel, now)
    elseif lane.kind == 'o' then
      local task = lane.task
      lane.tier, lane.weight = task.lane and task.tier or '', task.weight
      lane.cap, lane.cap_burst = task.cap, task.cap_burst
      if task.lane then lane.app, lane.channel = task.app, task.channel end
      lane.parked = not task.lane or task.over or gate(task, lane, now) ~= GRANTABLE
    end
  end

  function judge_lane(lane, now, claim)
    local queued = 0
    for i, want in ipairs(lane.wants) do
      lane.segments[i] = judge(lane, want, now, claim)
      for _, segment in ipairs(lane.segments[i]) do
        if segment.status == GRANTABLE then
          lane.queue[#lane.queue + 1] = segment
          queued = queued + segment.count * want.size
        end
      end
    end
    lane.asked = math.max(lane.asked_for, queued)
  end

  local function piece(segment, status, count)
    if segment.lane ~= '' then return { status, count, 0, '', segment.lane } end
    if segment.open then return { status, count, segment.attempt, segment.open, '', segment.groups } end
    return { status, count }
  end

  -- Adds a segment's pieces to `pieces` and its claimed envelopes to runs[task]; unmarks envelopes that were not
  -- granted.
  local function settle(segment, tier, pieces, runs)
    local want = segment.want
    local function hold(count, paid)
      mark(segment, count)
      runs[want.task] = runs[want.task] or {}
      add_run(runs[want.task], want.writer, want.attempt, segment.first, count, paid, want.size)
    end
    if segment.status ~= GRANTABLE then
      if is_claiming(segment.status) then hold(segment.count, '') end
      pieces[#pieces + 1] = piece(segment, segment.status, segment.count)
      return
    end
    local rest = segment.count - segment.granted
    if segment.granted > 0 then
      hold(segment.granted, tier)
      pieces[#pieces + 1] = { GRANTED, segment.granted, 0, '', '', segment.groups }
    end
    if rest > 0 then
      unmark(segment, segment.first + segment.granted, rest)
      pieces[#pieces + 1] = piece(segment, segment.waits, rest)
    end
  end

  function answer_of(lanes, runs)
    local answer = {}
    for i, lane in ipairs(lanes) do
      answer[i] = {}
      for j, segments in ipairs(lane.segments) do
        local pieces = {}
        for _, segment in ipairs(segments) do settle(segment, lane.tier, pieces, runs) end
        answer[i][j] = pieces
      end
    end
    return answer
  end

  -- Returns the answer while the view is not ready: everything is held.
  function held_answer(lanes)
    local answer = {}
    for i, lane in ipairs(lanes) do
      answer[i] = {}
      for j, want in ipairs(lane.wants) do answer[i][j] = { { HELD, want.count } } end
    end
    return answer
  end
end
