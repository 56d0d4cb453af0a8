-- library
-- include: claims.lua
-- Frees the envelopes of a claim, so that they may be granted again. lost_ms: the present time if the claim ended
-- without a record, and its envelopes may have been sent: then a try is added to the targets that were due. Envelopes
-- that are given back, or that were claimed without a lease, were not sent.

local free_run
do
  local function free_state(task, run, sequence, state, lost_ms)
    state.claimed, state.claim = -1, ''
    if lost_ms then add_lost_try(state, lost_ms) end
    write_open(task, open_field(run.writer, sequence), state)
  end

  local function free_open(task, run, claim, lost_ms)
    local freed = 0
    for sequence, state in pairs(open_states(task, run.writer, run.first, run.count)) do
      if state.claimed == run.attempt and state.claim == claim then
        free_state(task, run, sequence, state, lost_ms)
        freed = freed + 1
      end
    end
    return freed
  end

  -- Gives envelopes of a first attempt, whose claim ended without a record, a state with a try. They stay touched.
  local function lose_touched(task, run, sequences, lost_ms)
    local words = {}
    for _, sequence in ipairs(sequences) do
      local state = new_state(run.size)
      add_lost_try(state, lost_ms)
      words[#words + 1], words[#words + 2] = open_field(run.writer, sequence), pack_open(state)
    end
    in_pages('HSET', open_key(task), words)
  end

  -- Frees a run that is touched and not final, except envelopes recorded with open targets.
  local function free_touched(task, run, first, count, claim, lost_ms)
    local freed, states, plain = 0, open_states(task, run.writer, first, count), {}
    for sequence = first, first + count - 1 do
      local state = states[sequence]
      if not state then
        plain[#plain + 1] = sequence
      elseif state.recorded < 0 and state.claimed == 0 and state.claim == claim then
        free_state(task, run, sequence, state, lost_ms)
        freed = freed + 1
      end
    end
    if lost_ms then
      lose_touched(task, run, plain, lost_ms)
    elseif #plain == count then
      write_bits(touched_key(task, run.writer), first, count, false)
    else
      for _, sequence in ipairs(plain) do write_bits(touched_key(task, run.writer), sequence, 1, false) end
    end
    return freed + #plain
  end

  -- Frees the sequences of a claim's run that are not recorded; returns their number.
  function free_run(task, run, claim, lost_ms)
    local writer, freed = run.writer, 0
    if run.paid == '' then lost_ms = nil end
    if run.attempt > 0 then return free_open(task, run, claim, lost_ms) end
    for _, touched in ipairs(bit_runs(touched_key(task, writer), run.first, run.count)) do
      if touched[1] == 1 then
        for _, final in ipairs(bit_runs(final_key(task, writer), touched[2], touched[3])) do
          if final[1] == 0 then freed = freed + free_touched(task, run, final[2], final[3], claim, lost_ms) end
        end
      end
    end
    return freed
  end
end
