#!lua flags=allow-oom
-- Renews the owner's locks, takes free ones, and returns the owner of each lock.
--
-- KEYS[1] prefix
-- ARGV[1] owner, [2] ms until a lock expires, [3] maximum number to hold, [4] number n of names, then n names, then the
--   names to take if free regardless of the maximum
-- Returns {name, owner, ...} of the locks that are held

-- include: keys.lua

local owner, ttl_ms, limit, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local overdue = {}
for index = count + 5, #ARGV do overdue[ARGV[index]] = true end

local holders, mine = {}, 0
for index = 5, count + 4 do
  local name = ARGV[index]
  holders[name] = redis.call('GET', P .. ':lock:' .. name)
  if holders[name] == owner then mine = mine + 1 end
end

local answer = {}
for index = 5, count + 4 do
  local name = ARGV[index]
  local key, holder = P .. ':lock:' .. name, holders[name]
  if not holder and (mine < limit or overdue[name]) then
    holder = owner
    mine = mine + 1
  end
  if holder == owner then
    redis.call('SET', key, owner, 'PX', int_text(ttl_ms))
  elseif holder and redis.call('PTTL', key) > ttl_ms then
    redis.call('PEXPIRE', key, int_text(ttl_ms)) -- the clock was set back; a holder that is alive renews it
  end
  if holder then
    answer[#answer + 1] = name
    answer[#answer + 1] = holder
  end
end
return answer
