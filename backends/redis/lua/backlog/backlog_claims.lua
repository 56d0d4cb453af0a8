#!lua flags=no-writes
-- What is claimed at this moment, for a snapshot of the backlog.
--
-- KEYS[1] prefix
-- ARGV[1] most claims
-- Returns {how many there are, name, packed...}: claims as quotas/lua/claims/claims.lua packs them, named `<claim>|<task>`;
-- none of them if there are more

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
