#!lua flags=allow-oom
-- Lengthens claims that were live before the server's clock was set forward, by the same step, but not beyond the end
-- of a claim made now.
--
-- KEYS[1] prefix
-- ARGV[1] ms by which the clock was set forward
-- Returns the number of claims lengthened

-- include: integers.lua
-- include: claims.lua
-- include: clock.lua

local now, step, count = now_ms(), tonumber(ARGV[1]), 0
local latest = now + int(redis.call('HGET', P .. ':epoch', 'claim_ms'))

for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. ':claims', '(' .. int_text(now - step), '+inf')) do
  local claim = claim_of(member)
  local more = claim and math.min(step, latest - claim.end_ms) or 0
  if more > 0 and claim.end_ms > now - step then
    claim.end_ms, claim.lease_end_ms = claim.end_ms + more, claim.lease_end_ms + more
    write_claim(member, claim)
    redis.call('ZADD', P .. ':claims', int_text(claim.end_ms), member)
    count = count + 1
  end
end
return count
