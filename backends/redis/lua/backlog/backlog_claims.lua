#!lua flags=no-writes
-- Reads the claims in force, for a snapshot of the backlog.
--
-- KEYS[1] prefix
-- ARGV[1] most claims
-- Returns {number of claims, name, packed...}: claims as quotas/lua/claims/claims.lua packs them, named
--   `<claim>|<task>`; no claims if there are more than ARGV[1]

-- include: keys.lua

local there = redis.call('ZCARD', P .. ':claims')
local answer = { there }
if there > tonumber(ARGV[1]) then return answer end
for _, member in ipairs(redis.call('ZRANGE', P .. ':claims', 0, -1)) do
  local packed = redis.call('GET', P .. ':claim:' .. member)
  if packed then
    answer[#answer + 1] = member
    answer[#answer + 1] = packed
  end
end
return answer
