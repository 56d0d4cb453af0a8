-- library
-- Arithmetic on integers below 2^53, which Lua's doubles hold exactly. Buckets count millionths of a target (UNIT), so
-- that targets/s times microseconds needs no rounding. WINDOW_US: the buckets of a cap hold as much as it lets through
-- in this time.
-- constants: UNIT, WINDOW_US, TIERS, MILLI
local LARGEST = 1125899906842624

local function int(text)
  return tonumber(text or 0) or 0
end

local function div(a, b)
  return math.floor(a / b)
end

-- Returns rest * part / divisor, rounded down. It works bit by bit, for products that a double cannot hold. rest is
-- below divisor.
local function long_mul_div(rest, part, divisor)
  local quotient, remainder, bit = 0, 0, 1
  while bit * 2 <= part do bit = bit * 2 end
  while bit >= 1 do
    quotient, remainder = quotient * 2, remainder * 2
    if part >= bit then part, remainder = part - bit, remainder + rest end
    while remainder >= divisor do quotient, remainder = quotient + 1, remainder - divisor end
    bit = bit / 2
  end
  return quotient
end

-- Returns amount * part / divisor, rounded down, without computing the large product. part is at most divisor.
local function mul_div(amount, part, divisor)
  local times = div(amount, divisor)
  local rest = amount - times * divisor
  if rest * part < 2 * LARGEST then return times * part + div(rest * part, divisor) end
  return times * part + long_mul_div(rest, part, divisor)
end
