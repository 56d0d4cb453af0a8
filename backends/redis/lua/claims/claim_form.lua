-- library
-- The stored form of a claim: msgpack of {end_ms, lease_end_ms, runs, granted_ms}. A run is {writer, attempt, first,
-- count, tier whose credit paid for it or '', targets per envelope}. granted_ms: nil if no credit paid for any run.

local function read_claim(packed)
  local got = cmsgpack.unpack(packed)
  local claim = { end_ms = got[1], lease_end_ms = got[2], runs = {}, granted_ms = got[4] }
  for i, run in ipairs(got[3]) do
    claim.runs[i] = { writer = run[1], attempt = run[2], first = run[3], count = run[4], paid = run[5], size = run[6] }
  end
  return claim
end

local function pack_claim(claim)
  local runs = {}
  for i, run in ipairs(claim.runs) do
    runs[i] = { run.writer, run.attempt, run.first, run.count, run.paid, run.size }
  end
  return cmsgpack.pack({ claim.end_ms, claim.lease_end_ms, runs, claim.granted_ms })
end
