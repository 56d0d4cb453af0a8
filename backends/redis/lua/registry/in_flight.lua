-- Counts the targets in flight of some tasks, all at one moment. A cancel cannot call these back.
--
-- KEYS[1] prefix
-- ARGV[1...] tasks
-- Returns {{task, targets under claims that came with a lease, claims, targets sent so far}...}; unknown tasks are left
-- out

-- include: keys.lua
-- include: claim_form.lua

local found = {}
for _, name in ipairs(ARGV) do
  local got = redis.call('HMGET', task_key(name), 'lane', 'claims', 'sent')
  if got[1] then found[name] = { targets = 0, claims = tonumber(got[2] or 0), sent = tonumber(got[3] or 0) } end
end

for _, member in ipairs(redis.call('ZRANGE', P .. ':claims', 0, -1)) do
  local task = found[string.sub(member, string.find(member, '|', 1, true) + 1)]
  local packed = task and redis.call('GET', P .. ':claim:' .. member)
  for _, run in ipairs(packed and read_claim(packed).runs or {}) do
    if run.paid ~= '' then task.targets = task.targets + run.count * run.size end
  end
end

local answer = {}
for _, name in ipairs(ARGV) do
  local task = found[name]
  if task then answer[#answer + 1] = { name, task.targets, task.claims, task.sent } end
end
return answer
