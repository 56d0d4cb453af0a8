-- library
-- include: keys.lua
-- Ranges of bits in bitmaps by sequence, whole bytes at a time.

local function all_ones(width)
  return int_text(2 ^ width - 1)
end

-- Sets (on) or clears the bits of `count` sequences from `first`.
local function write_bits(key, first, count, on)
  local args = { key }
  local function field(from, width)
    if width == 0 then return end
    for _, word in ipairs({ 'SET', 'u' .. width, int_text(from), on and all_ones(width) or '0' }) do
      args[#args + 1] = word
    end
  end
  local head = math.min((8 - first % 8) % 8, count)
  local body = math.floor((count - head) / 8)
  local tail = count - head - body * 8
  if count <= 48 then
    field(first, count)
    body = 0
  else
    field(first, head)
    field(first + count - tail, tail)
  end
  if #args > 1 then redis.call('BITFIELD', unpack(args)) end
  if body > 0 then
    redis.call('SETRANGE', key, int_text((first + head) / 8), string.rep(on and '\255' or '\0', body))
  end
end

local function count_bits(key, first, count)
  return redis.call('BITCOUNT', key, int_text(first), int_text(first + count - 1), 'BIT')
end

-- Returns the first index from `at` whose bit differs from `bit`; `last` + 1 if there is none up to `last`, which must
-- be inside the bitmap.
local function next_change(key, bit, at, last)
  local index = redis.call('BITPOS', key, 1 - bit, int_text(at), int_text(last), 'BIT')
  if index < 0 or index > last then return last + 1 end
  return index
end

-- Returns the range as runs of equal bits, {bit, first, count} each. Beyond its end a bitmap has zeros.
local function bit_runs(key, first, count)
  local set = count_bits(key, first, count)
  if set == 0 then return { { 0, first, count } } end
  if set == count then return { { 1, first, count } } end
  local runs, at, beyond = {}, first, first + count
  local last = math.min(beyond, redis.call('STRLEN', key) * 8) - 1
  local bit = redis.call('GETBIT', key, int_text(first))
  while at <= last do
    local change = next_change(key, bit, at, last)
    runs[#runs + 1] = { bit, at, change - at }
    at, bit = change, 1 - bit
  end
  if at < beyond then
    local tail = runs[#runs]
    if tail[1] == 0 then tail[3] = tail[3] + beyond - at else runs[#runs + 1] = { 0, at, beyond - at } end
  end
  return runs
end
