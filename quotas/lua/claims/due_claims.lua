#!lua flags=allow-oom
-- Returns overdue claims, for a ClaimsEnded record. Each is returned again only after a while, in case that record has
-- not been folded by then. Claims of a live worker get more time: it knows their outcomes and records them once Pulsar
-- stores records again. While its heartbeat reports such unrecorded outcomes, its time stops at the oldest of them:
-- claims that it held then are kept however long that takes.
--
-- KEYS[1] prefix
-- ARGV[1] maximum number of claims to scan, [2] milliseconds until a claim is scanned again, [3] milliseconds after its
-- last heartbeat during which a worker counts as alive, [4] extra milliseconds for the claims of a live worker
-- Returns {`<claim>|<task>`...}

-- include: claims.lua
-- include: clock.lua

local now, due, recorded = now_ms(), {}, {}

-- Returns since when (ms) the worker has outcomes without a record; nil if it does not report any (0.2.0 never does).
local function read_unrecorded_since(worker)
  local packed = redis.call('GET', P .. ':worker:' .. worker)
  local is_read, beat = pcall(cmsgpack.unpack, packed or '')
  local extra = is_read and type(beat) == 'table' and beat.extra
  local unrecorded = type(extra) == 'table' and extra.unrecorded
  return type(unrecorded) == 'table' and tonumber(unrecorded.since_ms) or nil
end

-- Returns until when (ms) the worker has recorded all outcomes that it knows; false if it is not alive.
local function recorded_until(worker)
  if recorded[worker] == nil then
    local seen_ms = redis.call('ZSCORE', P .. ':workers', worker)
    local is_alive = seen_ms and tonumber(seen_ms) + tonumber(ARGV[3]) >= now
    recorded[worker] = is_alive and math.min(now, read_unrecorded_since(worker) or now)
  end
  return recorded[worker]
end

local function is_spared(member)
  local until_ms = recorded_until(worker_of_claim(member))
  local claim = until_ms and claim_of(member)
  return claim and until_ms < claim.end_ms + tonumber(ARGV[4])
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. ':claims', '-inf', whole(now), 'LIMIT', 0, tonumber(ARGV[1]))) do
  redis.call('ZADD', P .. ':claims', whole(now + tonumber(ARGV[2])), member)
  if not is_spared(member) then due[#due + 1] = member end
end
return due
