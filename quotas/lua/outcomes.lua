-- library
-- include: claims.lua
-- include: counts.lua
-- Folds outcome records: per target the first final outcome counts; later ones and "retry" change nothing.

local function repeats(count)
  if count > 0 then redis.call('HINCRBY', P .. ':stats', 'repeats', whole(count)) end
end

-- Counts what the codes say of positions still open; returns those that stay open. codes: by position, counted from 0.
local function count_open(counts, positions, codes)
  local still_open = {}
  for _, position in ipairs(positions) do
    local code = codes[position]
    if code and code < OUTCOMES then
      counts.by_code[code] = counts.by_code[code] + 1
    else
      still_open[#still_open + 1] = position
    end
  end
  return still_open
end

local function new_state(size)
  local state = { recorded = -1, size = size, positions = {}, claimed = -1, claim = '' }
  for position = 0, size - 1 do state.positions[position + 1] = position end
  return state
end

-- One envelope that is not final.
local function fold_open(counts, writer, attempt, sequence, size, codes, state)
  local task, field = counts.task, open_field(writer, sequence)
  local had = state ~= nil
  state = state or new_state(size)
  if state.recorded >= attempt then repeats(1) end
  state.recorded = math.max(state.recorded, attempt)
  state.positions = count_open(counts, state.positions, codes)
  if state.claimed <= state.recorded then state.claimed, state.claim = -1, '' end
  if #state.positions > 0 then
    write_open(task, field, state)
    counts.has_open = true
  else
    if had then redis.call('HDEL', open_key(task), field) end
    write_bits(final_key(task, writer), sequence, 1, true)
  end
  write_bits(touched_key(task, writer), sequence, 1, true)
end

local function fold_mixed(counts, mixed)
  local writer, sequence, positions, text = mixed.writer, mixed.sequence, mixed.positions, mixed.codes
  if redis.call('GETBIT', final_key(counts.task, writer), whole(sequence)) == 1 then return repeats(1) end
  local codes = {}
  for i = 1, #text do codes[positions and positions[i] or i - 1] = string.byte(text, i) end
  local states = open_states(counts.task, writer, sequence, 1)
  fold_open(counts, writer, mixed.attempt, sequence, mixed.size, codes, states[sequence])
end

-- Envelopes of one run that are not final: all at once where none is open.
local function fold_piece(counts, run, first, count)
  local writer, attempt, size, code = run.writer, run.attempt, run.size, run.code
  local states = counts.has_open and open_states(counts.task, writer, first, count) or {}
  if next(states) == nil and code < OUTCOMES then
    write_bits(final_key(counts.task, writer), first, count, true)
    write_bits(touched_key(counts.task, writer), first, count, true)
    counts.by_code[code] = counts.by_code[code] + count * size
    return
  end
  local codes = {}
  for position = 0, size - 1 do codes[position] = code end
  for sequence = first, first + count - 1 do
    fold_open(counts, writer, attempt, sequence, size, codes, states[sequence])
  end
end

local function fold_run(counts, run)
  for _, final in ipairs(bit_runs(final_key(counts.task, run.writer), run.first, run.count)) do
    if final[1] == 1 then repeats(final[3]) else fold_piece(counts, run, final[2], final[3]) end
  end
end

-- What is recorded is held by its claim no more.
local function use(member, writer, attempt, first, count)
  for _, run in ipairs(cut_claim(member, writer, attempt, first, count)) do tally('used', run, run.count) end
end

-- Of a task that was closed or has ended: while a view is made, all that it once was sent is read again.
local function repeat_over(count)
  if redis.call('HGET', P .. ':epoch', 'ready') == '1' then repeats(count) end
end

local function fold_outcomes(record)
  local counts, member = counts_of(record.task), record.claim .. '|' .. record.task
  for _, run in ipairs(record.runs) do
    if counts.over then
      repeat_over(run.count)
    else
      keep_writer(counts, run.writer)
      fold_run(counts, run)
    end
    use(member, run.writer, run.attempt, run.first, run.count)
  end
  for _, mixed in ipairs(record.mixed) do
    if counts.over then
      repeat_over(1)
    else
      keep_writer(counts, mixed.writer)
      fold_mixed(counts, mixed)
    end
    use(member, mixed.writer, mixed.attempt, mixed.sequence, 1)
  end
  note_time(counts, record.at_ms)
end
