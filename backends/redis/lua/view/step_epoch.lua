#!lua flags=allow-oom
-- Notes a step of a rebuild.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] announced | marked, [3] 1 if there is no claim to wait for, else 0; when announced: [4] position of
--         its record, [5] address of this Redis, [6] ms of the longest claim that the control topic knows of: a
--         view that is not complete waits for it too
-- Returns 1, or 0 if Redis now holds another view

-- include: keys.lua
-- include: clock.lua
-- include: longest_claim.lua

local key = P .. ':epoch'
if redis.call('HGET', key, 'id') ~= ARGV[1] then return 0 end
redis.call('HSET', key, ARGV[2], '1')
if ARGV[4] then redis.call('HSET', key, 'announced_at', ARGV[4], 'address', ARGV[5]) end
if ARGV[4] then
  local longest = note_longest_claim(tonumber(ARGV[6]))
  local got = redis.call('HMGET', key, 'ready', 'grants_after_ms', 'started_ms', 'waits_from_ms')
  if got[1] ~= '1' then
    local claims_end_ms = math.max(tonumber(got[4] or got[3]) + longest + REPORT_MS, tonumber(got[2]))
    redis.call('HSET', key, 'grants_after_ms', int_text(claims_end_ms))
  end
end
if ARGV[3] == '1' then redis.call('HSET', key, 'grants_after_ms', int_text(now_ms()), 'first', '1') end
return 1
