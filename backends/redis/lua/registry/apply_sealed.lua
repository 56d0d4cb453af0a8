#!lua flags=allow-oom
-- Applies a Sealed record: the audience is complete. The first seal in the topic counts, since envelopes of writers it
-- leaves out have been dropped. A seal does not count if its submitter is not the current one at its position. The seal
-- overrides a total that was only guessed when the task was closed.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] targets, [4] refused, [5] digest, [6] writers, comma separated, [7] submitter,
--   [8] 1: only if the submitter holds the lease, or this seal counts already
-- Returns 0; -1: neither is the case, and nothing changed

-- include: submission.lua
-- include: task_index.lua
-- include: task_end.lua
-- include: feed.lua

local task, position = ARGV[1], ARGV[2]
local key = task_key(task)

local read = redis.call('HMGET', key, 'sealed_pos', 'ended')
local asks = ARGV[8] == '1'
if read[1] and read[1] <= position then return asks and read[1] < position and -1 or 0 end
local holds_lease = redis.call('HGET', submitting_key(task), 'id') == ARGV[7]
if asks and not holds_lease then return -1 end
if not may_seal(task, ARGV[7], position) then return 0 end

redis.call('HSET', key, 'sealed', '1', 'sealed_pos', position, 'total', ARGV[3], 'sealed_refused', ARGV[4],
  'sealed_digest', ARGV[5], 'writers', ARGV[6])
if (read[2] or '') ~= '' then clear(task) else keep(task) end
if holds_lease then redis.call('DEL', submitting_key(task)) end
reindex(task)
announce('task', task)
return 0
