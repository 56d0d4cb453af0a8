-- library
-- Records of the outcome topics (dispatcher.outcome), as msgpack arrays led by their tag, with a Mixed' codes as text.

local function read_run(got)
  return { writer = got[1], attempt = got[2], first = got[3], count = got[4], size = got[5], code = got[6] }
end

-- positions: nil for all of the first attempt.
local function read_mixed(got)
  return { writer = got[1], attempt = got[2], sequence = got[3], size = got[4], positions = got[5], codes = got[6] }
end

local function all_read(read, packed)
  local found = {}
  for i, got in ipairs(packed) do found[i] = read(got) end
  return found
end

-- By tag. Of one that is passed over {?, position, note}.
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
