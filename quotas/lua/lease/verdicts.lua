-- library
-- include: tasks.lua
-- include: marks.lua
-- The ledger's verdicts on wanted envelopes, before quotas. A segment is a run of consecutive envelopes of a want with
-- the same verdict.
local function add_segment(segments, status, want, first, count, extra)
  local last, lane = segments[#segments], extra and extra.lane or ''
  local is_adjacent = last and last.first + last.count == first
  if is_adjacent and last.status == status and status ~= REPUBLISH and last.lane == lane then
    last.count = last.count + count
    return
  end
  local segment = { status = status, want = want, first = first, count = count, lane = lane, granted = 0 }
  segment.waits = NO_CREDIT
  if extra then segment.attempt, segment.open = extra.attempt, extra.open end
  segments[#segments + 1] = segment
end

local function is_claiming(status)
  return status == GRANTABLE or status == CANCELLED or status == EXPIRED
end

-- Judges envelopes of which only the state of their task is known.
local function judge_fresh(segments, task, lane, want, first, count, now)
  local status, target = writer_status(task, want.writer), ''
  if not status then
    status, target = gate_of_first(task, lane, now)
    if is_claiming(status) and call.copies[writer_of(want)] then
      touch(want, first, count)
    end
  end
  add_segment(segments, status, want, first, count, { lane = target })
end

-- Judges first attempts (attempt 0) that are claimed or recorded but not final.
local function judge_touched(segments, task, want, first, count)
  local excluded = writer_status(task, want.writer)
  if excluded then return add_segment(segments, excluded, want, first, count) end
  local states = open_states(task.id, want.writer, first, count)
  for sequence = first, first + count - 1 do
    local state = states[sequence]
    if state then
      add_segment(segments, REPUBLISH, want, sequence, 1, { attempt = state.recorded, open = state.open })
    else
      add_segment(segments, HELD, want, sequence, 1)
    end
  end
end

local function judge_first(segments, task, lane, want, now)
  for _, run in ipairs(bit_runs(touched_key(task.id, want.writer), want.first, want.count)) do
    if run[1] == 0 then
      judge_fresh(segments, task, lane, want, run[2], run[3], now)
    else
      for _, final in ipairs(bit_runs(final_key(task.id, want.writer), run[2], run[3])) do
        if final[1] == 1 then
          add_segment(segments, DROP, want, final[2], final[3])
        else
          judge_touched(segments, task, want, final[2], final[3])
        end
      end
    end
  end
end

-- Judges one envelope of a later attempt that is not final.
local function judge_later(segments, task, lane, want, sequence, now, claim)
  local excluded = writer_status(task, want.writer)
  if excluded then return add_segment(segments, excluded, want, sequence, 1) end
  local key = task.id .. ' ' .. open_field(want.writer, sequence)
  local state = call.opened[key] or open_states(task.id, want.writer, sequence, 1)[sequence]
  if state and state.recorded >= want.attempt then
    local extra = { attempt = state.recorded, open = state.open }
    return add_segment(segments, REPUBLISH, want, sequence, 1, extra)
  end
  if not state or state.recorded < want.attempt - 1 or state.claimed >= 0 then
    return add_segment(segments, HELD, want, sequence, 1)
  end
  local status, target = gate(task, lane, now)
  if is_claiming(status) then
    state.claimed, state.claim, call.opened[key] = want.attempt, claim, state
    write_open(task.id, open_field(want.writer, sequence), state)
    call.undo[#call.undo + 1] = function()
      state.claimed, state.claim = -1, ''
      write_open(task.id, open_field(want.writer, sequence), state)
    end
  end
  return add_segment(segments, status, want, sequence, 1, { lane = target })
end

-- Returns the segments of a want, in order.
local function judge(lane, want, now, claim)
  local segments, task = {}, task_of(want.task)
  if not task.lane then
    add_segment(segments, UNKNOWN, want, want.first, want.count)
  elseif task.over then
    add_segment(segments, DROP, want, want.first, want.count)
  elseif want.attempt == 0 then
    judge_first(segments, task, lane, want, now)
  else
    for sequence = want.first, want.first + want.count - 1 do
      if redis.call('GETBIT', final_key(task.id, want.writer), int_text(sequence)) == 1 then
        add_segment(segments, DROP, want, sequence, 1)
      else
        judge_later(segments, task, lane, want, sequence, now, claim)
      end
    end
  end
  return segments
end
