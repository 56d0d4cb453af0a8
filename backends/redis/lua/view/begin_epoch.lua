#!lua flags=allow-oom
-- Begins a view in an empty Redis, or in place of one that has an older form or is broken.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] ms of the longest claim that may be in use, during which nothing is granted,
--         [3] number of outcome partitions, [4] run id of this Redis,
--         [5] 1 if a snapshot must be restored first: until then the outcome topics are not folded,
--         [6] epoch of the view that is replaced, '' for none, [7] pattern of the prefix's keys,
--         [8] address of this Redis, [9] 1 if the installation moves here from another Redis,
--         [10] the last promotion of this run, '' for none
-- Returns 1, or 0 if there is already a view that is not to be replaced

-- include: feed.lua
-- include: clock.lua
-- include: form.lua
-- include: wipe_all.lua
-- include: longest_claim.lua
-- constants: MOVED_MS

local key = P .. ':epoch'
local had = redis.call('HMGET', key, 'id', 'form', 'claim_ms', 'broken')
local wait_ms = tonumber(ARGV[2])
if had[1] then
  local is_good = tonumber(had[2] or 1) >= FORM and not had[4]
  if had[1] ~= ARGV[6] or is_good then return 0 end
  wait_ms = math.max(wait_ms, tonumber(had[3] or 0))
  wipe_all(ARGV[7])
elseif redis.call('EXISTS', key) == 1 then
  return 0
end
local now = now_ms()
local waits_from = now + (ARGV[9] == '1' and MOVED_MS or 0)
redis.call('HSET', key, 'id', ARGV[1], 'started_ms', int_text(now), 'ready', '0', 'announced', '0', 'marked', '0',
  'waits_from_ms', int_text(waits_from), 'grants_after_ms', int_text(waits_from + wait_ms + REPORT_MS),
  'claim_ms', int_text(wait_ms), 'partitions', ARGV[3], 'run_id', ARGV[4], 'restoring', ARGV[5],
  'form', int_text(FORM), 'address', ARGV[8], 'adopted', ARGV[9], 'promotion', ARGV[10])
announce('epoch', '')
return 1
