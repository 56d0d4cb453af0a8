-- library
-- include: verdicts.lua
-- include: claims.lua
-- include: announce.lua
-- A lease request (dispatcher.lease.LeaseRequest) unpacked, and its answer.

local function read_wants(packed)
  local wants = {}
  for i, got in ipairs(packed) do
    wants[i] = { task = got[1], writer = got[2], attempt = got[3], first = got[4], count = got[5], size = got[6] }
    note_want(wants[i])
  end
  return wants
end

local function read_lane(packed)
  local lane = { name = packed[1], kind = packed[2], tier = packed[3], demand = packed[4] }
  lane.wanted = read_wants(packed[5])
  lane.wants, lane.queue, lane.head, lane.granted, lane.app, lane.channel = {}, {}, 1, 0, '', ''
  lane.waiting = packed[6] == true and #lane.wanted == 0
  if lane.kind == 'd' then
    lane.app, lane.channel = string.match(lane.name, 'side%.([^/~]*)~([^/~]*)$')
    want_settings(lane.app, lane.channel)
  elseif lane.kind == 'o' then
    lane.task = task_of(string.match(lane.name, '[^/]*$'))
  end
  for _, want in ipairs(lane.wanted) do task_of(want.task) end
  return lane
end

-- Tier, weight, caps of a lane at present; parked where its own task may not be sent now. app, channel: of all that is
-- in the lane; empty where it is of many.
local function place(lane, now)
  lane.weight, lane.cap, lane.parked = MILLI, 0, false
  if lane.kind == 's' then
    local weight = int(redis.call('HGET', lane_key(lane.name), 'weight'))
    lane.tier, lane.weight = 'low', weight > 0 and weight or MILLI
  elseif lane.kind == 'd' then
    lane.tier, lane.parked = 'low', is_stopped(lane.channel)
  elseif lane.kind == 'o' then
    local task = lane.task
    lane.tier, lane.weight = task.lane and task.tier or '', task.weight
    lane.cap, lane.cap_burst = task.cap, task.cap_burst
    if task.lane then lane.app, lane.channel = task.app, task.channel end
    lane.parked = not task.lane or task.over or gate(task, lane.name, now) ~= GRANTABLE
  end
end

local function judge_lane(lane, now, claim)
  local queued = 0
  for i, want in ipairs(lane.wanted) do
    lane.wants[i] = judge(lane.name, want, now, claim)
    for _, segment in ipairs(lane.wants[i]) do
      if segment.status == GRANTABLE then
        lane.queue[#lane.queue + 1] = segment
        queued = queued + segment.count * want.size
      end
    end
  end
  lane.asked = math.max(lane.demand, queued)
end

local function piece(segment, status, count)
  if segment.lane ~= '' then return { status, count, 0, {}, segment.lane } end
  if segment.positions then return { status, count, segment.attempt, segment.positions } end
  return { status, count }
end

-- Puts the pieces of a segment into `pieces` and what is claimed into runs[task]; lets go of what was not granted.
local function settle(segment, tier, pieces, runs)
  local want = segment.want
  local function hold(count, paid)
    mark(want, segment.first, count)
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
    pieces[#pieces + 1] = { GRANTED, segment.granted }
  end
  if rest > 0 then
    unmark(want, segment.first + segment.granted, rest)
    pieces[#pieces + 1] = piece(segment, segment.waits, rest)
  end
end

local function answer_of(lanes, runs)
  local answer = {}
  for i, lane in ipairs(lanes) do
    answer[i] = {}
    for j, segments in ipairs(lane.wants) do
      local pieces = {}
      for _, segment in ipairs(segments) do settle(segment, lane.tier, pieces, runs) end
      answer[i][j] = pieces
    end
  end
  return answer
end

-- The answer while the view is not ready: everything is held.
local function held_answer(lanes)
  local answer = {}
  for i, lane in ipairs(lanes) do
    answer[i] = {}
    for j, want in ipairs(lane[5]) do answer[i][j] = { { HELD, want[5] } } end
  end
  return answer
end
