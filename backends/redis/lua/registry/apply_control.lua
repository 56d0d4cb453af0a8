#!lua flags=allow-oom
-- Applies a ControlChange: for each control, the last in the topic counts. A cancel is never taken back, and the first
-- reason in the topic to stop or close the task counts.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] weight | tier | cap | paused | cancelled | stopped | close | lane | override,
--         [4] value, [5] at_ms, [6] by, [7] id of the request, [8] the value as the audit shows it
-- Returns 0

-- include: task_index.lua
-- include: task_end.lua
-- include: feed.lua
-- include: pauses.lua
-- include: cap_rate.lua
-- include: audit.lua

local task, position, field, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = task_key(task)

if field == 'paused' then note_pause(key, 'pauses', position, value, ARGV[5]) end
if field == 'cancelled' and value ~= '1' then return 0 end
local stored = field == 'lane' and 'moved_lane' or field
local read = redis.call('HGET', key, field .. '_pos')
local had = redis.call('HMGET', key, 'app', stored)
local before = field ~= 'override' and not (read and read >= position) and had[2] or ''
note_audit(position, ARGV[5], had[1] or '', ARGV[6], ARGV[7], task, field, before, ARGV[8])
if field == 'stopped' or field == 'close' then
  if value == '' or read and read <= position then return 0 end
elseif read and read >= position then
  return 0
end

if field == 'override' then
  -- Two simultaneous edits have the same number: the later one in the topic takes the next number.
  local number, message = string.match(value, '^(%d+)(:.*)$')
  local last = string.match(redis.call('HGET', key, 'override') or '', '^%d+') or 0
  value = int_text(math.max(tonumber(number), tonumber(last) + 1)) .. message
end
redis.call('HSET', key, stored, value, field .. '_pos', position)
if field == 'override' then drop_messages(task) end
if field == 'cap' then note_rate(key, 'cap_rate', value) end
leave_shared_lane(task)
reindex(task)
announce('task', task)
return 0
