#!lua flags=allow-oom
-- Names claims that are past their end, for a ClaimsEnded record; each is named again only after a while, should that
-- record not have been folded by then. Those of a worker that is alive are given longer: it knows what became of them
-- and says so once Pulsar stores records again. While it says in its heartbeat that it has such outcomes, its time
-- stands still at the oldest of them: claims that it held then are kept however long that takes.
--
-- KEYS[1] prefix
-- ARGV[1] most claims to look at, [2] milliseconds until a claim is looked at again, [3] milliseconds after its last
-- heartbeat for which a worker counts as alive, [4] milliseconds that the claims of one that is alive are given longer
-- Returns {`<claim>|<task>`...}

-- include: claims.lua
-- include: clock.lua

local now, due, recorded = now_ms(), {}, {}

-- Since when (ms) the worker has outcomes without a record; nil: it does not say (0.2.0 never does).
local function read_unrecorded_since(worker)
  local packed = redis.call('GET', P .. ':worker:' .. worker)
  local is_read, beat = pcall(cmsgpack.unpack, packed or '')
  local extra = is_read and type(beat) == 'table' and beat.extra
  local unrecorded = type(extra) == 'table' and extra.unrecorded
  return type(unrecorded) == 'table' and tonumber(unrecorded.since_ms) or nil
end

-- Until when (ms) the worker has recorded all outcomes that it knows; false: it is not alive.
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
