-- library
-- Records of the control topic (dispatcher.wire.control) that are stored unchanged.

local function read_checkpoint(packed)
  local got = cmsgpack.unpack(packed)
  return { sequence = got[5], targets = got[6], refused = got[7] }
end

-- Reads a submission's record and its position. An Announced (tag a) has the number of targets announced, a TakenOver
-- (tag o) who took over and when. packed: the stored form.
local function read_entry(got)
  local record = got[2]
  local entry = { position = got[1], tag = record[1], packed = got }
  if entry.tag == 'a' then entry.targets = record[6] else entry.by, entry.at_ms = record[4], record[5] end
  return entry
end
