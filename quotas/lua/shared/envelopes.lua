-- library
-- include: bits.lua
-- include: call.lua
-- include: groups.lua
-- include: pages.lua
-- State of envelopes: bitmaps by sequence, `final` (all targets have an outcome) and `touched` (attempt 0 is claimed or
-- recorded; it covers `final`), and P:open:<task> (hash `<writer>:<sequence>`) for envelopes recorded with open
-- targets, and for those of which a claim ended without a record: msgpack of {last recorded round or -1, size, open
-- positions (positions.lua), round claimed or -1, its claim, groups of the open targets (groups.lua), time at which
-- those of the claim were due}. A call can undo its claims (call.undo): Redis does not roll back a failed script, and
-- envelopes marked without a claim would stay marked forever.

local function final_key(task, writer)
  return P .. ':final:' .. task .. ':' .. writer
end

local function touched_key(task, writer)
  return P .. ':touched:' .. task .. ':' .. writer
end

local function open_key(task)
  return P .. ':open:' .. task
end

local function open_field(writer, sequence)
  return writer .. ':' .. int_text(sequence)
end

local function read_open(packed)
  if not packed then return nil end
  local fields = cmsgpack.unpack(packed)
  local state = { recorded = fields[1], size = fields[2], open = fields[3], claimed = fields[4], claim = fields[5] }
  state.groups, state.due_ms = fields[6], fields[7]
  return state
end

local function pack_open(state)
  local claimed, claim = state.claimed, state.claim
  return cmsgpack.pack({ state.recorded, state.size, state.open, claimed, claim, state.groups, state.due_ms })
end

-- Returns the state of an envelope that is not recorded.
local function new_state(size)
  local state = { recorded = -1, size = size, open = all_positions(size), claimed = -1, claim = '', due_ms = 0 }
  state.groups = { { state.open, 0, 0, 0, false, false } }
  return state
end

local function write_open(task, field, state)
  redis.call('HSET', open_key(task), field, pack_open(state))
end

-- Returns the open states of envelopes by sequence; envelopes without one are left out.
local function open_states_of(task, writer, sequences)
  local states, fields = {}, {}
  for i, sequence in ipairs(sequences) do fields[i] = open_field(writer, sequence) end
  for i, packed in ipairs(in_pages('HMGET', open_key(task), fields)) do states[sequences[i]] = read_open(packed) end
  return states
end

local function open_states(task, writer, first, count)
  local sequences = {}
  for sequence = first, first + count - 1 do sequences[#sequences + 1] = sequence end
  return open_states_of(task, writer, sequences)
end
