-- library
-- Positions of targets as text (dispatcher/wire/groups.py): one hexadecimal digit for every four positions, with the
-- first in its lowest bit. '' for none.

local all_positions, count_positions, take_final, both, all_but
do
  -- Indexes of the set bits in each digit, by the digit's byte; and the digits by value.
  local BITS, HEX

  -- Makes these tables. Most calls meet no open positions, and making them takes longer than the rest of a short call.
  local function need_digits()
    if BITS then return end
    BITS, HEX = {}, {}
    for value = 0, 15 do
      HEX[value] = string.format('%x', value)
      local bits, rest = {}, value
      for bit = 0, 3 do
        if rest % 2 == 1 then bits[#bits + 1] = bit end
        rest = math.floor(rest / 2)
      end
      BITS[string.byte(HEX[value])] = bits
    end
  end

  -- Returns all positions of an envelope of this size.
  function all_positions(size)
    local rest = size % 4
    return string.rep('f', (size - rest) / 4) .. (rest > 0 and string.format('%x', 2 ^ rest - 1) or '')
  end

  -- Returns the positions that are in both texts (is_in), or in the first only; '' for none.
  local function selected(positions, others, is_in)
    need_digits()
    local own, other, found, any = { string.byte(positions, 1, -1) }, { string.byte(others, 1, -1) }, {}, false
    for i = 1, #own do
      local value, there = 0, {}
      for _, bit in ipairs(other[i] and BITS[other[i]] or {}) do there[bit] = true end
      for _, bit in ipairs(BITS[own[i]]) do
        if (there[bit] or false) == is_in then value = value + 2 ^ bit end
      end
      found[i], any = HEX[value], any or value > 0
    end
    return any and table.concat(found) or ''
  end

  function both(positions, others)
    if positions == others then return positions end
    return selected(positions, others, true)
  end

  function all_but(positions, others)
    return selected(positions, others, false)
  end

  function count_positions(positions, size)
    if positions == all_positions(size) then return size end
    need_digits()
    local count = 0
    for _, digit in ipairs({ string.byte(positions, 1, -1) }) do count = count + #BITS[digit] end
    return count
  end

  -- Adds the final codes of positions to by_code; returns the positions without a final code. codes: text, by position.
  function take_final(positions, codes, by_code)
    need_digits()
    local open_digits, code_at, still_open = { string.byte(positions, 1, -1) }, { string.byte(codes, 1, -1) }, {}
    local any_open = false
    for i = 1, #open_digits do
      local bits, value = BITS[open_digits[i]], 0
      for j = 1, #bits do
        local code = code_at[4 * i - 3 + bits[j]]
        if code and by_code[code] then
          by_code[code] = by_code[code] + 1
        else
          value, any_open = value + 2 ^ bits[j], true
        end
      end
      still_open[i] = HEX[value]
    end
    return any_open and table.concat(still_open) or ''
  end
end
