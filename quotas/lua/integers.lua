-- library
-- Arithmetic on whole numbers below 2^53, which Lua's doubles hold exactly; the same as dispatcher/memory/pools.py.
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

-- amount * part / whole, rounded down, without the large product.
local function portion(amount, part, whole_part)
  local times = div(amount, whole_part)
  return times * part + div((amount - times * whole_part) * part, whole_part)
end
