-- library
-- include: claims.lua
-- include: counts.lua
-- include: bit_lists.lua
-- include: groups.lua
-- include: refunds.lua
-- Folds outcome records: for each target the first final outcome counts; later ones and "retry" change nothing.
-- Envelopes are read and written in groups, since one command costs as much as all other work on an envelope.

local function count_repeats(count)
  call.repeats = call.repeats + count
end

local function count_code(counts, code, targets)
  counts.by_code[code] = counts.by_code[code] + targets
end

-- Counts the record's final outcomes for positions that are still open; returns the positions that stay open. Usually
-- the open positions are exactly those of the attempt or, if the record comes a second time, those that it leaves open.
-- Then the record's own sums are enough.
local function count_open(counts, open, mixed)
  if open == mixed.still_open then return open end
  if open ~= mixed.included then return take_final(open, mixed.codes, counts.by_code) end
  for i, targets in ipairs(mixed.by_code) do count_code(counts, i - 1, targets) end
  return mixed.still_open
end

-- Returns the groups of an envelope's open targets after a record. The first record of a round names them; a later one
-- of the same round changes nothing but what it makes final.
local function groups_after(state, mixed, is_first)
  if not is_first then return groups_within(state.groups, state.open) end
  if state.open == mixed.still_open then return mixed.groups end
  local groups = groups_within(mixed.groups, state.open)
  for _, group in ipairs(groups_within(state.groups, all_but(state.open, mixed.included))) do
    groups[#groups + 1] = group
  end
  return groups
end

-- Folds one envelope. envelope: {final, state}, which is read from the view and updated.
local function fold_envelope(counts, envelope, mixed)
  if envelope.final then return count_repeats(1) end
  local state = envelope.state
  if not state then
    state = new_state(mixed.size)
  end
  local is_first = mixed.attempt > state.recorded
  if not is_first then count_repeats(1) end
  state.recorded = math.max(state.recorded, mixed.attempt)
  state.open = count_open(counts, state.open, mixed)
  state.groups = groups_after(state, mixed, is_first)
  if state.claimed <= state.recorded then state.claimed, state.claim = -1, '' end
  envelope.state, envelope.final, envelope.changed = state, state.open == '', true
end

-- Returns envelopes by sequence; `is_open`: the envelope has a state in the view.
local function read_envelopes(counts, writer, sequences)
  local envelopes, states = {}, counts.has_open and open_states_of(counts.task, writer, sequences) or {}
  for i, bit in ipairs(read_bits(final_key(counts.task, writer), sequences)) do
    local state = states[sequences[i]]
    envelopes[sequences[i]] = { final = bit == 1, state = state, is_open = state ~= nil }
  end
  return envelopes
end

local function write_envelopes(counts, writer, envelopes)
  local opened, closed, final, touched = {}, {}, {}, {}
  for sequence, envelope in pairs(envelopes) do
    if envelope.changed then
      local field = open_field(writer, sequence)
      touched[#touched + 1] = sequence
      if not envelope.final then
        opened[#opened + 1], opened[#opened + 2] = field, pack_open(envelope.state)
      else
        final[#final + 1] = sequence
        if envelope.is_open then closed[#closed + 1] = field end
      end
    end
  end
  counts.has_open = counts.has_open or #opened > 0
  in_pages('HSET', open_key(counts.task), opened)
  in_pages('HDEL', open_key(counts.task), closed)
  set_bits(final_key(counts.task, writer), final)
  set_bits(touched_key(counts.task, writer), touched)
end

-- Folds the part of a record that lists one writer's envelopes one by one.
local function fold_mixed(counts, writer, all_mixed)
  local sequences, seen = {}, {}
  for _, mixed in ipairs(all_mixed) do
    if not seen[mixed.sequence] then sequences[#sequences + 1] = mixed.sequence end
    seen[mixed.sequence] = true
  end
  local envelopes = read_envelopes(counts, writer, sequences)
  for _, mixed in ipairs(all_mixed) do fold_envelope(counts, envelopes[mixed.sequence], mixed) end
  write_envelopes(counts, writer, envelopes)
end

-- Gives all open targets of a run's envelopes the run's outcome.
local function fold_run(counts, run)
  local task, writer, first, count = counts.task, run.writer, run.first, run.count
  local final, closed = count_bits(final_key(task, writer), first, count), {}
  count_repeats(final)
  for sequence, state in pairs(counts.has_open and open_states(task, writer, first, count) or {}) do
    if state.recorded >= run.attempt then count_repeats(1) end
    count_code(counts, run.code, count_positions(state.open, state.size))
    closed[#closed + 1] = open_field(writer, sequence)
  end
  in_pages('HDEL', open_key(task), closed)
  count_code(counts, run.code, (count - final - #closed) * run.size)
  write_bits(final_key(task, writer), first, count, true)
  write_bits(touched_key(task, writer), first, count, true)
end

-- Cuts the recorded envelopes out of their claim. Targets that it paid for and that were not sent are refunded.
local function cut_claimed(record)
  local spans, sent = {}, {}
  for i, run in ipairs(record.runs) do spans[i] = run end
  for _, mixed in ipairs(record.mixed) do
    spans[#spans + 1] = { writer = mixed.writer, attempt = mixed.attempt, first = mixed.sequence, count = 1 }
    if mixed.sent >= 0 then sent[envelope_name(mixed.writer, mixed.attempt, mixed.sequence)] = mixed.sent end
  end
  local member, unsent = record.claim .. '|' .. record.task, {}
  local claim = claim_of(member)
  local in_time = claim and now_ms() < claim.lease_end_ms
  for _, run in ipairs(cut_claim(member, spans)) do
    local targets = unsent_of(run, sent)
    tally('used', run, run.count * run.size - targets)
    tally(in_time and 'returned' or 'expired', run, targets)
    if run.paid ~= '' and targets > 0 then unsent[run.paid] = (unsent[run.paid] or 0) + targets end
  end
  if in_time then refund_unsent(record.task, claim.granted_ms, unsent) end
end

-- Counts repeats of a task that was closed or has ended; not during a rebuild, which reads all its records again.
local function count_late_repeats(record)
  if redis.call('HGET', P .. ':epoch', 'ready') ~= '1' then return end
  for _, run in ipairs(record.runs) do count_repeats(run.count) end
  count_repeats(#record.mixed)
end

local function fold_parts(counts, record)
  local by_writer, writers = {}, {}
  for _, run in ipairs(record.runs) do
    keep_writer(counts, run.writer)
    fold_run(counts, run)
  end
  for _, mixed in ipairs(record.mixed) do
    local writer = mixed.writer
    if not by_writer[writer] then by_writer[writer], writers[#writers + 1] = {}, writer end
    by_writer[writer][#by_writer[writer] + 1] = mixed
  end
  for _, writer in ipairs(writers) do
    keep_writer(counts, writer)
    fold_mixed(counts, writer, by_writer[writer])
  end
end

local function fold_outcomes(record)
  local counts = counts_of(record.task)
  if counts.over then count_late_repeats(record) else fold_parts(counts, record) end
  cut_claimed(record)
  note_time(counts, record.at_ms)
end
