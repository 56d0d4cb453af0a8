#!lua flags=allow-oom
-- Names claims that are past their end, for a ClaimsEnded record; each is named again only after a while, should that
-- record not have been folded by then. Those of a worker that is alive are given longer: it knows what became of them
-- and says so once Pulsar stores records again.
--
-- KEYS[1] prefix
-- ARGV[1] most claims to look at, [2] milliseconds until a claim is looked at again, [3] milliseconds after its last
-- heartbeat for which a worker counts as alive, [4] milliseconds that the claims of one that is alive are given longer
-- Returns {`<claim>|<task>`...}

-- include: claims.lua
-- include: clock.lua

local now, due = now_ms(), {}

local function is_spared(member)
  local seen_ms = redis.call('ZSCORE', P .. ':workers', worker_of_claim(member))
  if not seen_ms or tonumber(seen_ms) + tonumber(ARGV[3]) < now then return false end
  local claim = claim_of(member)
  return claim and now < claim.end_ms + tonumber(ARGV[4])
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. ':claims', '-inf', whole(now), 'LIMIT', 0, tonumber(ARGV[1]))) do
  redis.call('ZADD', P .. ':claims', whole(now + tonumber(ARGV[2])), member)
  if not is_spared(member) then due[#due + 1] = member end
end
return due
