-- library
-- include: positions.lua
-- Groups of an envelope's open targets (dispatcher/wire/groups.py): {positions, tries, due time, time of the first call
-- or 0, whether the last try was under a claim that ended without a record, whether they wait for the end of a pause}.
-- constants: MAX_TRIES
local groups_within, sum_of_tries, targets_due, add_lost_try
do
  local POSITIONS, TRIES, DUE_MS, FIRST_MS = 1, 2, 3, 4

  -- Returns the groups, cut to these positions.
  function groups_within(groups, positions)
    local found = {}
    for _, group in ipairs(groups) do
      local own = both(group[POSITIONS], positions)
      if own ~= '' then
        found[#found + 1] = { own, group[TRIES], group[DUE_MS], group[FIRST_MS], group[5], group[6] }
      end
    end
    return found
  end

  -- Returns the sum of the tries of an envelope's open targets.
  function sum_of_tries(state)
    local sum = 0
    for _, group in ipairs(state.groups) do
      sum = sum + group[TRIES] * count_positions(group[POSITIONS], state.size)
    end
    return sum
  end

  -- Returns whether a group is due; due_ms: latest due time of what is due, 0 if all is.
  local function is_due(group, due_ms)
    return due_ms == 0 or group[DUE_MS] <= due_ms
  end

  function targets_due(state, due_ms)
    local count = 0
    for _, group in ipairs(state.groups) do
      if is_due(group, due_ms) then count = count + count_positions(group[POSITIONS], state.size) end
    end
    return count
  end

  -- Adds a try to the targets of an open envelope that were due in its claim, which ended without a record.
  function add_lost_try(state, now)
    for _, group in ipairs(state.groups) do
      if is_due(group, state.due_ms) then
        group[TRIES], group[5] = math.min(group[TRIES] + 1, MAX_TRIES), true
        if group[FIRST_MS] == 0 then group[FIRST_MS] = now end
      end
    end
  end
end
