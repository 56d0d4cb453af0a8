-- Applies a ControlChange: the last in the topic counts, for each control; a cancel is never taken back.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] weight | tier | cap | paused | cancelled, [4] value
-- Returns 0

-- include: task_index.lua
-- include: feed.lua

local task, position, field, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = task_key(task)

if field == 'cancelled' and value ~= '1' then return 0 end
local read = redis.call('HGET', key, field .. '_pos')
if read and read >= position then return 0 end

redis.call('HSET', key, field, value, field .. '_pos', position)
reindex(task)
announce('task', task)
return 0
