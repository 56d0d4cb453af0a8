-- library
-- include: keys.lua
-- Tells the workers of a change. kind: task, globals or epoch.
local function announce(kind, task)
  redis.call('INCR', P .. ':version')
  redis.call('XADD', P .. ':feed', 'MAXLEN', '~', 10000, '*', 'kind', kind, 'task', task)
end
