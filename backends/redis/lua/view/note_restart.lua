#!lua flags=allow-oom
-- Handles a run id that differs from the view's: Redis was restarted with its data, or a replica took its place.
-- Claims of the last second may be missing. Nothing is granted until they have ended, and until the topics have been
-- read up to their end at that time: the view gets a new id, so that its rebuild continues from the stored cursors.
-- It is announced again, since only the control topic is sure to know the longest claim.
--
-- KEYS[1] prefix
-- ARGV[1] when that was noticed (ms), [2] run id of this Redis, [3] ms of the longest claim that the caller knows of;
--   workers may have made longer ones
-- Returns 1, or 0 if there is no view, or if it began or the restart was noticed in this run already

-- include: feed.lua
-- include: longest_claim.lua

local key = P .. ':epoch'
local got = redis.call('HMGET', key, 'id', 'run_id', 'partitions', 'claim_ms')
if not got[1] or got[2] == ARGV[2] then return 0 end
local claims_end_ms = tonumber(ARGV[1]) + math.max(tonumber(ARGV[3]), tonumber(got[4] or 0)) + REPORT_MS
redis.call('HSET', key, 'id', string.match(got[1], '^[^.]*') .. '.' .. ARGV[2], 'run_id', ARGV[2], 'ready', '0',
  'announced', '0', 'marked', '0', 'waits_from_ms', ARGV[1], 'grants_after_ms', int_text(claims_end_ms))
redis.call('HDEL', key, 'first', 'read:control')
for partition = 0, tonumber(got[3] or 0) - 1 do redis.call('HDEL', key, 'read:' .. partition) end
announce('epoch', '')
return 1
