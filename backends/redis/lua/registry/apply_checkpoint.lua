#!lua flags=allow-oom
-- Applies a Checkpoint: the furthest one counts, for each writer. It is announced only if the task had no known targets
-- left to send, since workers may then have detached from its lane.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] writer, [4] sequence, [5] targets, [6] refused, [7] the record
-- Returns 0

-- include: task_index.lua
-- include: feed.lua
-- include: control_records.lua

local task, position, writer, sequence = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local key = task_key(task)
local at, where = 'ckpt:' .. writer, 'ckpt_pos:' .. writer

local had = redis.call('HMGET', key, at, where)
local old = had[1] and read_checkpoint(had[1]) or { sequence = -1, targets = 0, refused = 0 }
if sequence < old.sequence then return 0 end
if sequence == old.sequence and position <= had[2] then return 0 end

redis.call('HSET', key, at, ARGV[7], where, position)
local known = redis.call('HMGET', key, 'published', 'finals')
local published = redis.call('HINCRBY', key, 'published', int_text(tonumber(ARGV[5]) - old.targets))
redis.call('HINCRBY', key, 'refused', int_text(tonumber(ARGV[6]) - old.refused))
if redis.call('HEXISTS', key, 'lane') == 0 then reindex(task) end
local finals = tonumber(known[2] or 0)
if tonumber(known[1] or 0) <= finals and published > finals then announce('task', task) end
return 0
