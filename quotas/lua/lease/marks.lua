-- library
-- include: envelopes.lua
-- Marks of this call's claims: touched bits, and the claim in the state of open envelopes. If a call may hold copies,
-- envelopes that may be granted or are cancelled or expired are marked when they are judged, so that a later copy is
-- not granted too. Otherwise they are marked only when granted.

local function writer_of(want)
  return want.task .. ' ' .. want.writer
end

-- Notes whether a want may overlap an earlier one. Called for every want of the call before the first is judged.
local function note_want(want)
  local key = writer_of(want)
  if want.first < (call.ends[key] or 0) then call.copies[key] = true end
  call.ends[key] = math.max(call.ends[key] or 0, want.first + want.count)
end

local function touch(want, first, count)
  local key = touched_key(want.task, want.writer)
  call.undo[#call.undo + 1] = function() write_bits(key, first, count, false) end
  write_bits(key, first, count, true)
end

-- Claims an open envelope in its state.
local function claim_state(want, sequence, state, claim)
  local field = open_field(want.writer, sequence)
  state.claimed, state.claim, state.due_ms = want.attempt, claim, want.due_ms
  call.opened[want.task .. ' ' .. field] = state
  write_open(want.task, field, state)
  call.undo[#call.undo + 1] = function()
    state.claimed, state.claim = -1, ''
    write_open(want.task, field, state)
  end
end

-- Marks the envelopes of a segment as claimed, unless they were marked when judged.
local function mark(segment, count)
  local want = segment.want
  if want.attempt == 0 and not segment.has_state and not call.copies[writer_of(want)] then
    touch(want, segment.first, count)
  end
end

-- Unmarks envelopes of a segment that were marked when judged but not granted.
local function unmark(segment, first, count)
  local want = segment.want
  if not segment.has_state then
    if call.copies[writer_of(want)] then write_bits(touched_key(want.task, want.writer), first, count, false) end
    return
  end
  for sequence = first, first + count - 1 do
    local field = open_field(want.writer, sequence)
    local state = call.opened[want.task .. ' ' .. field]
    state.claimed, state.claim = -1, ''
    write_open(want.task, field, state)
  end
end
