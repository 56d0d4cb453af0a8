#!lua flags=allow-oom
-- Applies a Finished record: the tombstone. If there are several, the first in the topic counts; its counts become
-- the task's. Keys that an ended task does not need are deleted at once, the rest when no topic has a record of the
-- task any more. That time is counted from when the end was last read, since a restated end stays in the topic for
-- longer.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] state, [4] at_ms, [5] to [9] targets by outcome: sent, invalid, failed, expired,
--         cancelled, [10] why it failed, or ''
-- Returns 0

-- include: task_index.lua
-- include: task_end.lua
-- include: feed.lua

local task, position = ARGV[1], ARGV[2]
local key = task_key(task)

local read = redis.call('HGET', key, 'ended_pos')
if read == position then redis.call('PEXPIRE', key, TOMBSTONE_MS) end
if read and read <= position then return 0 end

local finals = 0
for index = 5, 9 do finals = finals + tonumber(ARGV[index]) end
redis.call('HSET', key, 'ended', ARGV[3], 'ended_pos', position, 'finished_ms', ARGV[4], 'sent', ARGV[5],
  'invalid', ARGV[6], 'failed', ARGV[7], 'expired', ARGV[8], 'cancelled_n', ARGV[9], 'finals', int_text(finals),
  'reason', ARGV[10])
clear(task)
drop_messages(task)
reindex(task)
redis.call('PEXPIRE', key, TOMBSTONE_MS)
announce('task', task)
return 0
