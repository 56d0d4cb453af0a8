-- What is under way of some tasks, all at one moment: what a cancel cannot call back. Targets are counted by the task's
-- targets an envelope where a claim does not tell, so they are at most so many.
--
-- KEYS[1] prefix
-- ARGV[1...] tasks
-- Returns {{task, targets under claims that came with a lease, claims, targets sent so far}...}; unknown tasks are left out

-- include: keys.lua

local found = {}
for _, task in ipairs(ARGV) do
  local got = redis.call('HMGET', task_key(task), 'chunk', 'sealed', 'total', 'claims', 'sent')
  if got[1] then
    found[task] = {
      task = task, chunk = tonumber(got[1]), total = got[2] == '1' and tonumber(got[3]), targets = 0,
      claims = tonumber(got[4] or 0), sent = tonumber(got[5] or 0),
    }
  end
end

-- The last envelope of an audience may have fewer targets.
local function in_first(task, run)
  local from, till = run[3] * task.chunk, (run[3] + run[4]) * task.chunk
  if run[1] == '0' and task.total then till = math.max(from, math.min(till, task.total)) end
  return till - from
end

local function in_later(task, run)
  local targets = 0
  for sequence = run[3], run[3] + run[4] - 1 do
    local packed = redis.call('HGET', P .. ':open:' .. task.task, run[1] .. ':' .. whole(sequence))
    targets = targets + (packed and #cmsgpack.unpack(packed)[3] or 0)
  end
  return targets
end

for _, member in ipairs(redis.call('ZRANGE', P .. ':claims', 0, -1)) do
  local task = found[string.sub(member, string.find(member, '|', 1, true) + 1)]
  local packed = task and redis.call('GET', P .. ':claim:' .. member)
  for _, run in ipairs(packed and cmsgpack.unpack(packed)[3] or {}) do
    if run[5] == 1 then task.targets = task.targets + (run[2] == 0 and in_first(task, run) or in_later(task, run)) end
  end
end

local answer = {}
for _, name in ipairs(ARGV) do
  local task = found[name]
  if task then answer[#answer + 1] = { name, task.targets, task.claims, task.sent } end
end
return answer
