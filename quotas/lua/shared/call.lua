-- library
-- The state of one call: the data it has read and the data it will write. Each part names the file that fills it.
local call = {
  settings = { caps = {}, pools = {} }, -- settings.lua: settings of the service that the call needs
  globals = {}, -- settings.lua: fields as stored
  field_names = {}, -- settings.lua: names of the fields to read
  lowered = {}, -- settings.lua: by pool, when a cap that was halved is all again
  tasks = {}, -- tasks.lua: by id
  holds_unrecorded = false, -- lease.lua: whether any task waits for outcomes that no topic has
  cursor = nil, -- tasks.lua: position up to which the control topic has been read
  opened = {}, -- marks.lua: open envelopes that this call claims
  ends = {}, -- marks.lua: by writer, the end of its wants
  copies = {}, -- marks.lua: by writer, whether its wants overlap
  claims = {}, -- claims.lua: by member; false if it has ended
  tallied = {}, -- claims.lua: sums to be added to the ledger's counters
  counts = {}, -- counts.lua: by task
  repeats = 0, -- outcomes.lua: envelopes that were already recorded
  counted = {}, -- counts.lua: tasks in order of appearance
  pools = {}, -- pools.lua: by name
  parts = {}, -- app_parts.lua: by tier and app
  channels = {}, -- request.lua: by name, {how long its claims last in ms, targets of a request (0: an envelope's)}
  paces = {}, -- share.lua: by pool and flow, when granted targets may be sent
  lists = {}, -- demand.lua: names in a text
  written = {}, -- demand.lua: demand to be stored
  due = {}, -- demand.lua: when it is forgotten
  undo = {}, -- functions that undo the writes of a failed call, run from the last to the first
}
