-- Renews the seats that are the owner's, takes free ones, and says who has which.
--
-- KEYS[1] prefix
-- ARGV[1] owner, [2] ms until a seat is free again, [3] number n of names, then n names, then the names to take if free
-- Returns {name, owner, ...} of the seats that are held

-- include: keys.lua

local owner, ttl_ms, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local wanted = {}
for index = count + 4, #ARGV do wanted[ARGV[index]] = true end

local answer = {}
for index = 4, count + 3 do
  local name = ARGV[index]
  local key = P .. ':lock:' .. name
  local holder = redis.call('GET', key)
  if not holder and wanted[name] then holder = owner end
  if holder == owner then redis.call('SET', key, owner, 'PX', ttl_ms) end
  if holder then
    answer[#answer + 1] = name
    answer[#answer + 1] = holder
  end
end
return answer
