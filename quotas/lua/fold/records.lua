-- library
-- Records of the outcome topics (dispatcher.wire.outcome) as quotas/fold.py encodes them: msgpack arrays that begin
-- with their tag, with final runs only.

local function read_run(got)
  return { writer = got[1], attempt = got[2], first = got[3], count = got[4], size = got[5], code = got[6] }
end

-- tried: positions of the attempt; left: those of them without a final outcome. by_code: number of targets per final
-- outcome. codes: text, by position; positions that were not tried have a code that is not final.
local function read_mixed(got)
  local mixed = { writer = got[1], attempt = got[2], sequence = got[3], size = got[4] }
  mixed.tried, mixed.left, mixed.by_code, mixed.codes = got[5], got[6], got[7], got[8]
  return mixed
end

local function all_read(read, packed)
  local found = {}
  for i, got in ipairs(packed) do found[i] = read(got) end
  return found
end

-- Readers by tag. A record that is passed over is {?, position, note}.
local READ = {
  o = function(got)
    local runs, mixed = all_read(read_run, got[7]), all_read(read_mixed, got[8])
    return { kind = 'outcomes', task = got[3], claim = got[4], at_ms = got[5], runs = runs, mixed = mixed }
  end,
  c = function(got) return { kind = 'close', task = got[3], code = got[4], at_ms = got[5] } end,
  e = function(got) return { kind = 'claims ended', members = got[3] } end,
  m = function(got) return { kind = 'mark', epoch = got[3] } end,
  ['?'] = function(got) return { kind = 'passed over', position = got[2], note = got[3] } end,
}

local function read_record(packed)
  local got = cmsgpack.unpack(packed)
  return READ[got[1]](got)
end
