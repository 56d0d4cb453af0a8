-- library
-- include: claims.lua
-- Frees the envelopes of a claim, so that they may be granted again.

local function free_open(task, run, claim)
  local freed = 0
  for sequence, state in pairs(open_states(task, run.writer, run.first, run.count)) do
    if state.claimed == run.attempt and state.claim == claim then
      state.claimed, state.claim = -1, ''
      write_open(task, open_field(run.writer, sequence), state)
      freed = freed + 1
    end
  end
  return freed
end

-- Clears the touched bits of a run that is touched and not final, except envelopes recorded with open targets.
local function free_touched(task, writer, first, count)
  local freed, states = 0, open_states(task, writer, first, count)
  if next(states) == nil then
    write_bits(touched_key(task, writer), first, count, false)
    return count
  end
  for sequence = first, first + count - 1 do
    if not states[sequence] then
      write_bits(touched_key(task, writer), sequence, 1, false)
      freed = freed + 1
    end
  end
  return freed
end

-- Frees the sequences of a claim's run that are not recorded; returns their number.
local function free_run(task, run, claim)
  local writer, freed = run.writer, 0
  if run.attempt > 0 then return free_open(task, run, claim) end
  for _, touched in ipairs(bit_runs(touched_key(task, writer), run.first, run.count)) do
    if touched[1] == 1 then
      for _, final in ipairs(bit_runs(final_key(task, writer), touched[2], touched[3])) do
        if final[1] == 0 then freed = freed + free_touched(task, writer, final[2], final[3]) end
      end
    end
  end
  return freed
end
