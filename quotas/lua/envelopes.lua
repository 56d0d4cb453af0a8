-- library
-- include: bits.lua
-- include: call.lua
-- State of envelopes: bitmaps `final` (all targets have an outcome) and `touched` (attempt 0 is claimed or recorded; it
-- covers `final`) by sequence, and P:open:<task> (hash `<writer>:<sequence>`) for those recorded with open targets:
-- msgpack of {recorded, size, open positions, attempt claimed or -1, its claim}. What a call claims it can take back
-- (call.undo): Redis does not roll back a script that fails, and envelopes marked without a claim would be marked for
-- ever.

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
  return writer .. ':' .. whole(sequence)
end

local function read_open(packed)
  if not packed then return nil end
  local got = cmsgpack.unpack(packed)
  return { recorded = got[1], size = got[2], positions = got[3], claimed = got[4], claim = got[5] }
end

local function write_open(task, field, state)
  redis.call('HSET', open_key(task), field,
    cmsgpack.pack({ state.recorded, state.size, state.positions, state.claimed, state.claim }))
end

-- The open states of a range by sequence; absent ones are left out.
local function open_states(task, writer, first, count)
  local states = {}
  for from = first, first + count - 1, 1000 do
    local fields, till = {}, math.min(from + 999, first + count - 1)
    for sequence = from, till do fields[#fields + 1] = open_field(writer, sequence) end
    for i, packed in ipairs(redis.call('HMGET', open_key(task), unpack(fields))) do
      if packed then states[from + i - 1] = read_open(packed) end
    end
  end
  return states
end
