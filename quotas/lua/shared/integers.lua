-- library
-- Arithmetic on whole numbers below 2^53, which Lua's doubles hold exactly. Buckets count millionths of a target
-- (UNIT), so that targets/s times microseconds needs no rounding. WINDOW_US: the buckets of a cap hold as much as it
-- lets through in this time.
local UNIT = 1000000
local WINDOW_US = 250000
local LARGEST = 1125899906842624
local TIERS = { 'high', 'medium', 'low' }
local MILLI = 1000

local function int(text)
  return tonumber(text or 0) or 0
end

local function div(a, b)
  return math.floor(a / b)
end

-- Returns rest * part / whole, rounded down. It works bit by bit, for products that a double cannot hold. rest is below
-- whole.
local function long_portion(rest, part, whole_part)
  local quotient, left, bit = 0, 0, 1
  while bit * 2 <= part do bit = bit * 2 end
  while bit >= 1 do
    quotient, left = quotient * 2, left * 2
    if part >= bit then part, left = part - bit, left + rest end
    while left >= whole_part do quotient, left = quotient + 1, left - whole_part end
    bit = bit / 2
  end
  return quotient
end

-- Returns amount * part / whole, rounded down, without computing the large product. part is at most whole.
local function mul_div(amount, part, whole_part)
  local times = div(amount, whole_part)
  local rest = amount - times * whole_part
  if rest * part < 2 * LARGEST then return times * part + div(rest * part, whole_part) end
  return times * part + long_portion(rest, part, whole_part)
end
