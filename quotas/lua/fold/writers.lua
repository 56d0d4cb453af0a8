-- library
-- include: envelopes.lua
-- Returns the writers of a task: the first one, those with a checkpoint, and those that the seal counts.
local function writers_of(task)
  local names = { ['0'] = true }
  for _, field in ipairs(redis.call('HKEYS', task_key(task))) do
    local writer = string.match(field, '^ckpt:(.*)$')
    if writer then names[writer] = true end
  end
  for writer in string.gmatch(redis.call('HGET', task_key(task), 'writers') or '', '[^,]+') do names[writer] = true end
  return names
end
