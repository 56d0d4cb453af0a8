-- library
-- Records of the outcome topics (dispatcher.wire.outcome) as quotas/fold.py encodes them: msgpack arrays that begin
-- with their tag, with final runs only.

local function read_run(values)
  local run = { writer = values[1], attempt = values[2], first = values[3] }
  run.count, run.size, run.code = values[4], values[5], values[6]
  return run
end

-- Reads one envelope. included: positions of the attempt; still_open: those of them without a final outcome; by_code:
-- number of targets per final outcome; codes: text, by position, with a code that is not final where the attempt has no
-- target; groups: of still_open; sent: number of targets that were sent, -1 for all.
local function read_mixed(values)
  local mixed = { writer = values[1], attempt = values[2], sequence = values[3], size = values[4] }
  mixed.included, mixed.still_open, mixed.by_code, mixed.codes = values[5], values[6], values[7], values[8]
  mixed.groups, mixed.sent = values[9], values[10]
  return mixed
end

local function all_read(read, packed)
  local items = {}
  for i, values in ipairs(packed) do items[i] = read(values) end
  return items
end

-- Readers by tag. A skipped record is {?, position, note}.
local READ = {
  o = function(values)
    local runs, mixed = all_read(read_run, values[7]), all_read(read_mixed, values[8])
    return { kind = 'outcomes', task = values[3], claim = values[4], at_ms = values[5], runs = runs, mixed = mixed }
  end,
  c = function(values) return { kind = 'close', task = values[3], code = values[4], at_ms = values[5] } end,
  e = function(values) return { kind = 'claims ended', members = values[3] } end,
  m = function(values) return { kind = 'mark', epoch = values[3] } end,
  ['?'] = function(values) return { kind = 'skipped', position = values[2], note = values[3] } end,
}

local function read_record(packed)
  local values = cmsgpack.unpack(packed)
  return READ[values[1]](values)
end
