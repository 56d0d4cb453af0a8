#!lua flags=allow-oom
-- Names claims that are past their end, for a ClaimsEnded record; each is named again only after a while, should that
-- record not have been folded by then.
--
-- KEYS[1] prefix
-- ARGV[1] most claims to name, [2] milliseconds until a claim is named again
-- Returns {`<claim>|<task>`...}

-- include: keys.lua
-- include: clock.lua

local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', P .. ':claims', '-inf', whole(now), 'LIMIT', 0, tonumber(ARGV[1]))
for _, member in ipairs(due) do
  redis.call('ZADD', P .. ':claims', whole(now + tonumber(ARGV[2])), member)
end
return due
