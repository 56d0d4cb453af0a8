-- library
-- Records of the control topic (dispatcher.wire.control) that are kept as they came.

local function read_checkpoint(packed)
  local got = cmsgpack.unpack(packed)
  return { sequence = got[5], targets = got[6], refused = got[7] }
end

-- Of a submission, with its position: an Announced (tag a) says up to which target, a TakenOver (tag o) who took over
-- and when. packed: as it is stored.
local function read_entry(got)
  local record = got[2]
  local entry = { position = got[1], tag = record[1], packed = got }
  if entry.tag == 'a' then entry.targets = record[6] else entry.by, entry.at_ms = record[4], record[5] end
  return entry
end
