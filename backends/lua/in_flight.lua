-- What is under way of some tasks, all at one moment: what a cancel cannot call back.
--
-- KEYS[1] prefix
-- ARGV[1...] tasks
-- Returns {{task, targets under claims that came with a lease, claims, targets sent so far}...}; unknown tasks are left
-- out

-- include: keys.lua

local found = {}
for _, name in ipairs(ARGV) do
  local got = redis.call('HMGET', task_key(name), 'lane', 'claims', 'sent')
  if got[1] then found[name] = { targets = 0, claims = tonumber(got[2] or 0), sent = tonumber(got[3] or 0) } end
end

-- A claim is packed as {end_ms, lease_end_ms, {run...}} (quotas/lua/claims.lua): the fifth of a run says who paid, the
-- sixth how many targets are in each of its envelopes.
for _, member in ipairs(redis.call('ZRANGE', P .. ':claims', 0, -1)) do
  local task = found[string.sub(member, string.find(member, '|', 1, true) + 1)]
  local packed = task and redis.call('GET', P .. ':claim:' .. member)
  for _, run in ipairs(packed and cmsgpack.unpack(packed)[3] or {}) do
    if run[5] ~= '' and run[6] then task.targets = task.targets + run[4] * run[6] end
  end
end

local answer = {}
for _, name in ipairs(ARGV) do
  local task = found[name]
  if task then answer[#answer + 1] = { name, task.targets, task.claims, task.sent } end
end
return answer
