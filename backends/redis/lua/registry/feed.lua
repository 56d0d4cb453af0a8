-- library
-- include: keys.lua
-- Announces a change to the workers. kind: task, globals or epoch.
local function announce(kind, task)
  redis.call('INCR', P .. ':version')
  redis.call('XADD', P .. ':feed', 'MAXLEN', '~', 10000, '*', 'kind', kind, 'task', task)
end
