#!lua flags=allow-oom
-- Handles a run that differs from the view's: Redis was restarted with its data, or a replica took its place.
-- Claims of the last second may be missing. Nothing is granted until they have ended, and until the topics have been
-- read up to their end at that time: the view gets a new id, so that its rebuild continues from the stored cursors.
-- It is announced again, since only the control topic is sure to know the longest claim. The number in the new id is
-- one higher, so that a former primary learns from the control topic that it was replaced (apply_epoch.lua).
--
-- KEYS[1] prefix
-- ARGV[1] when that was noticed (ms), [2] run id of this Redis, [3] ms of the longest claim that the caller knows of;
--   workers may have made longer ones, [4] the last promotion of this run, '' for none
-- Returns 1, or 0 if there is no view, or if it began or the restart was noticed in this run already

-- include: feed.lua
-- include: longest_claim.lua
-- include: view_run.lua

local key, promotion = P .. ':epoch', ARGV[4]
local got = redis.call('HMGET', key, 'id', 'run_id', 'partitions', 'claim_ms', 'promotion', 'deposed')
if not got[1] then return 0 end
if got[2] == ARGV[2] and (promotion == '' or got[5] == promotion) then return 0 end
local claims_end_ms = tonumber(ARGV[1]) + math.max(tonumber(ARGV[3]), tonumber(got[4] or 0)) + REPORT_MS
local number = math.max(number_of(got[1]), number_of(got[6] or '')) + 1
redis.call('HSET', key, 'id', view_of(got[1]) .. '.' .. int_text(number) .. '-' .. ARGV[2], 'run_id', ARGV[2],
  'promotion', promotion, 'ready', '0', 'announced', '0', 'marked', '0', 'waits_from_ms', ARGV[1],
  'grants_after_ms', int_text(claims_end_ms))
redis.call('HDEL', key, 'first', 'deposed', 'announced_at', 'read:control')
for partition = 0, tonumber(got[3] or 0) - 1 do redis.call('HDEL', key, 'read:' .. partition) end
announce('epoch', '')
return 1
