#!lua flags=allow-oom
-- Takes, renews or releases the lease of a task's submission.
--
-- KEYS[1] prefix
-- ARGV[1] action: take, renew or release, [2] task, [3] submitter, [4] the submitter as shown to others
-- Returns {state, who, since_ms, until_ms}. state after `take`: 'fresh', 'again' or 'held' (submission.lua); after
--   `renew` and `release`: 'ours', 'held' (by who), or 'gone': no submitter holds it, since Redis was emptied

-- include: submission.lua

local task, submitter = ARGV[2], ARGV[3]
local key = submitting_key(task)
if ARGV[1] == 'take' then return take_lease(task, submitter, ARGV[4]) end

local had = redis.call('HMGET', key, 'id', 'who', 'since_ms', 'until_ms')
if not had[1] then return { 'gone', '', 0, 0 } end
if had[1] ~= submitter then return { 'held', had[2], tonumber(had[3]), tonumber(had[4]) } end
-- A renewal may be under way when the lease is released: it stays released, so that the next submitter need not wait.
local until_ms = ARGV[1] == 'renew' and had[4] ~= '0' and now_ms() + LEASE_MS or 0
redis.call('HSET', key, 'until_ms', int_text(until_ms))
redis.call('PEXPIRE', key, REMEMBERED_MS)
return { 'ours', had[2], tonumber(had[3]), until_ms }
