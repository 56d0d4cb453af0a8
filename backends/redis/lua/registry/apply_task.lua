#!lua flags=allow-oom
-- Applies a TaskRecord: the static part and the initial values of the controls. If there are several records under one
-- id, the first in the topic counts. A control that was changed since keeps its value. A task that sends to its first
-- targets only and waits for a go is paused from the beginning (quotas/lua/lease/tasks.lua).
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] tier, [4] weight, [5] cap, then pairs of field and value: the static part
-- Returns 0

-- include: task_index.lua
-- include: task_end.lua
-- include: feed.lua
-- include: pauses.lua

local task, position = ARGV[1], ARGV[2]
local key = task_key(task)
local controls = { tier = ARGV[3], weight = ARGV[4], cap = ARGV[5] }

local read = redis.call('HGET', key, 'record_pos')
if read and read <= position then return 0 end

-- A record of another app, accepted under the same id at the same moment and later in the topic, was applied first.
if read then list_under_app(task, redis.call('HGET', key, 'app'), false) end
redis.call('HSET', key, 'record_pos', position, 'tier0', controls.tier, unpack(ARGV, 6))
local accepted = redis.call('HMGET', key, 'first', 'created_ms')
if read then
  drop_pause(key, 'pauses', read)
  if redis.call('HEXISTS', key, 'paused_pos') == 0 then redis.call('HDEL', key, 'paused') end
end
if tonumber(accepted[1] or 0) > 0 then
  controls.paused = '1'
  note_pause(key, 'pauses', position, '1', accepted[2])
end
for field, value in pairs(controls) do
  if redis.call('HEXISTS', key, field .. '_pos') == 0 then redis.call('HSET', key, field, value) end
end
leave_shared_lane(task)
keep(task)
drop_messages(task)
reindex(task)
announce('task', task)
return 0
