-- library
-- include: tasks.lua
-- include: marks.lua
-- include: paused_time.lua
-- The ledger's statuses of wanted envelopes, before quotas. A segment is a run of consecutive envelopes of a want with
-- the same status.
local is_claiming, judge
do
  local LACKING_KEPT_MS = 10000

  local function add_segment(segments, status, want, first, count, extra)
    local last, lane = segments[#segments], extra and extra.lane or ''
    local is_adjacent = last and last.first + last.count == first
    local has_state, groups = extra and extra.has_state or false, extra and extra.groups
    local named = groups and cmsgpack.pack(groups) or ''
    local is_alike = is_adjacent and last.status == status and last.lane == lane and last.has_state == has_state
    if is_alike and status ~= REPUBLISH and last.named == named then
      last.count = last.count + count
      return
    end
    local segment = { status = status, want = want, first = first, count = count, lane = lane, granted = 0 }
    segment.waits, segment.has_state, segment.groups, segment.named = NO_CREDIT, has_state, groups, named
    if extra then segment.attempt, segment.open = extra.attempt, extra.open end
    segments[#segments + 1] = segment
  end

  function is_claiming(status)
    return status == GRANTABLE or status == CANCELLED or status == EXPIRED
  end

  -- Judges envelopes of which only the state of their task is known. Those of a trial send have a verdict of their own.
  local function judge_fresh(segments, task, lane, want, first, count, now)
    local status, target, in_trial = writer_status(task, want.writer), '', task.trial - first
    if in_trial > 0 and in_trial < count then
      judge_fresh(segments, task, lane, want, first, in_trial, now)
      return judge_fresh(segments, task, lane, want, task.trial, count - in_trial, now)
    end
    if not status then
      status, target = gate_of_first(task, lane, now, first)
      if is_claiming(status) and call.copies[writer_of(want)] then
        touch(want, first, count)
      end
    end
    add_segment(segments, status, want, first, count, { lane = target })
  end

  -- Notes in its task's hash an envelope that lacks an open target: name, since when, until when. It may be early: the
  -- fold has yet to read the record in which the target became final. `fairlane doctor` names one that stays.
  local function note_lacking(want, sequence, now)
    local name = want.writer .. ':' .. int_text(sequence) .. ':' .. int_text(want.attempt)
    local noted = redis.call('HGET', task_key(want.task), 'lacking') or ''
    local before, since, until_ms = string.match(noted, '^(%S+) (%d+) (%d+)$')
    if before ~= name or now - tonumber(until_ms) > LACKING_KEPT_MS then since = int_text(now) end
    redis.call('HSET', task_key(want.task), 'lacking', name .. ' ' .. since .. ' ' .. int_text(now))
  end

  -- Answers that the open targets of an envelope are published again, in the round after the last recorded one.
  local function republish(segments, want, sequence, state)
    local extra = { attempt = state.recorded, open = state.open, groups = state.groups }
    add_segment(segments, REPUBLISH, want, sequence, 1, extra)
  end

  -- Judges an envelope with a state, of any round. A copy with more targets than are open is cut to these, and one with
  -- other due times gets the view's. A copy that lacks an open target is kept: the target would be lost with it.
  local function judge_open(segments, task, lane, want, sequence, state, now, claim)
    if state.recorded >= want.attempt then return republish(segments, want, sequence, state) end
    local open = count_positions(state.open, state.size)
    if state.recorded < want.attempt - 1 or state.claimed >= 0 then
      return add_segment(segments, HELD, want, sequence, 1)
    elseif want.open < open then
      note_lacking(want, sequence, now)
      return add_segment(segments, HELD, want, sequence, 1)
    elseif want.open > open or targets_due(state, want.due_ms) ~= want.size then
      return republish(segments, want, sequence, state)
    end
    local gate_of = want.attempt == 0 and gate_of_first or gate
    local status, target = gate_of(task, lane, now, sequence)
    if is_claiming(status) then claim_state(want, sequence, state, claim) end
    local groups
    if status == GRANTABLE then
      local aged = want.first_ms > 0 and call.groups_with_pauses(task, state.groups, want.first_ms, now)
      groups = aged or sum_of_tries(state) > want.tries and state.groups or nil
    end
    add_segment(segments, status, want, sequence, 1, { lane = target, has_state = true, groups = groups })
  end

  -- Judges first attempts (attempt 0) that are claimed or recorded but not final.
  local function judge_touched(segments, task, lane, want, first, count, now, claim)
    local excluded = writer_status(task, want.writer)
    if excluded then return add_segment(segments, excluded, want, first, count) end
    local states = open_states(task.id, want.writer, first, count)
    for sequence = first, first + count - 1 do
      local key = task.id .. ' ' .. open_field(want.writer, sequence)
      local state = call.opened[key] or states[sequence]
      if state then
        judge_open(segments, task, lane, want, sequence, state, now, claim)
      else
        add_segment(segments, HELD, want, sequence, 1)
      end
    end
  end

  local function judge_first(segments, task, lane, want, now, claim)
    for _, run in ipairs(bit_runs(touched_key(task.id, want.writer), want.first, want.count)) do
      if run[1] == 0 then
        judge_fresh(segments, task, lane, want, run[2], run[3], now)
      else
        for _, final in ipairs(bit_runs(final_key(task.id, want.writer), run[2], run[3])) do
          if final[1] == 1 then
            add_segment(segments, DROP, want, final[2], final[3])
          else
            judge_touched(segments, task, lane, want, final[2], final[3], now, claim)
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
    if not state then return add_segment(segments, HELD, want, sequence, 1) end
    judge_open(segments, task, lane, want, sequence, state, now, claim)
  end

  -- Returns the segments of a want, in order.
  function judge(lane, want, now, claim)
    local segments, task = {}, task_of(want.task)
    if not task.lane then
      add_segment(segments, UNKNOWN, want, want.first, want.count)
    elseif task.over then
      add_segment(segments, DROP, want, want.first, want.count)
    elseif want.attempt == 0 then
      judge_first(segments, task, lane, want, now, claim)
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
end
