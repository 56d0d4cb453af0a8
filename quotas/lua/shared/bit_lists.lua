-- library
-- include: keys.lua
-- Bits of bitmaps by sequence, in any order.

-- Maximum number of bits per command: Lua's `unpack` takes about 8,000 words.
local BITS_AT_ONCE = 1000

-- Runs a command for many sequences, in any order. word: the operation on each bit.
local function each_bit(command, key, sequences, word)
  local bits = {}
  for from = 1, #sequences, BITS_AT_ONCE do
    local args = { key }
    for i = from, math.min(from + BITS_AT_ONCE - 1, #sequences) do
      args[#args + 1], args[#args + 2], args[#args + 3] = word, 'u1', int_text(sequences[i])
      if word == 'SET' then args[#args + 1] = '1' end
    end
    for _, bit in ipairs(redis.call(command, unpack(args))) do bits[#bits + 1] = bit end
  end
  return bits
end

local function read_bits(key, sequences)
  return each_bit('BITFIELD_RO', key, sequences, 'GET')
end

local function set_bits(key, sequences)
  each_bit('BITFIELD', key, sequences, 'SET')
end
