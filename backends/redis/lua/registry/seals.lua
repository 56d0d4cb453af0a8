-- library
-- include: keys.lua
-- A seal counts once the control topic has been read up to it. Its submitter applies it before that, when an earlier
-- seal, which wins, may not have been read yet. Dropping envelopes or ending the task by the later seal would lose
-- targets.

local function control_cursor()
  return redis.call('HGET', P .. ':control', 'cursor') or ''
end

-- sealed_pos: false for a task that was closed without a seal.
local function is_settled(sealed_pos, cursor)
  return not sealed_pos or sealed_pos <= cursor
end
