-- library
-- include: envelopes.lua
-- Marks of what this call claims: touched bits, and the claim in the state of open envelopes. What may be granted, or
-- is cancelled or expired, is marked when it is judged where a call may hold copies, so that one further on is not
-- granted too; elsewhere not before it is granted.

local function writer_of(want)
  return want.task .. ' ' .. want.writer
end

-- Notes, for every want of the call before the first is judged, whether it may overlap one before it.
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

-- Marks envelopes as claimed, if that was not done at once.
local function mark(want, first, count)
  if want.attempt == 0 and not call.copies[writer_of(want)] then touch(want, first, count) end
end

-- Lets go of marked envelopes that were not granted after all.
local function unmark(want, first, count)
  if want.attempt == 0 and not call.copies[writer_of(want)] then return end
  if want.attempt == 0 then return write_bits(touched_key(want.task, want.writer), first, count, false) end
  for sequence = first, first + count - 1 do
    local field = open_field(want.writer, sequence)
    local state = call.opened[want.task .. ' ' .. field]
    state.claimed, state.claim = -1, ''
    write_open(want.task, field, state)
  end
end
