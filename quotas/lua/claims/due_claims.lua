#!lua flags=allow-oom
-- Returns overdue claims, for a ClaimsEnded record. Each is returned again after a while, if that record has not been
-- folded by then. Claims of a live worker get more time: it knows their outcomes and records them once Pulsar stores
-- records again. While its heartbeat reports such unrecorded outcomes, its clock stops at the oldest of them: claims
-- that it held then are kept for as long as it takes.
--
-- KEYS[1] prefix
-- ARGV[1] maximum number of claims to scan, [2] milliseconds until a claim is scanned again, [3] extra milliseconds
-- for the claims of a live worker
-- Returns {`<claim>|<task>`...}

-- include: integers.lua
-- include: claims.lua
-- include: clock.lua
-- include: unrecorded.lua

local now, due, recorded = now_ms(), {}, {}

-- Returns until when (ms) the worker has recorded all outcomes that it knows; false if it is not alive.
local function recorded_until(worker)
  if recorded[worker] == nil then
    local unrecorded = unrecorded_of(worker, now)
    recorded[worker] = unrecorded and math.min(now, unrecorded.since_ms) or false
  end
  return recorded[worker]
end

local function is_spared(member)
  local until_ms = recorded_until(worker_of_claim(member))
  local claim = until_ms and claim_of(member)
  return claim and until_ms < claim.end_ms + tonumber(ARGV[3])
end

-- Shortens claims that end later than any made now.
local function shorten_claims(limit)
  local longest_ms = int(redis.call('HGET', P .. ':epoch', 'claim_ms'))
  if longest_ms == 0 then return end
  local latest = now + math.max(longest_ms, tonumber(ARGV[2]))
  local later = redis.call('ZRANGEBYSCORE', P .. ':claims', '(' .. int_text(latest), '+inf', 'LIMIT', 0, limit)
  for _, member in ipairs(later) do
    local claim = claim_of(member)
    local less = claim and claim.end_ms - latest or 0
    if less > 0 then
      claim.end_ms, claim.lease_end_ms = latest, claim.lease_end_ms - less
      write_claim(member, claim)
    end
    redis.call('ZADD', P .. ':claims', int_text(latest), member)
  end
end

shorten_claims(tonumber(ARGV[1]))
local overdue = redis.call('ZRANGEBYSCORE', P .. ':claims', '-inf', int_text(now), 'LIMIT', 0, tonumber(ARGV[1]))
for _, member in ipairs(overdue) do
  redis.call('ZADD', P .. ':claims', int_text(now + tonumber(ARGV[2])), member)
  if not is_spared(member) then due[#due + 1] = member end
end
each_recorded(now, function(member)
  if #due < tonumber(ARGV[1]) then due[#due + 1] = member end
end)
return due
