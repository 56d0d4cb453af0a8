#!lua
-- Admits a new task of an app, or returns the app's limit that it would break. An admitted task is reserved until its
-- record is applied (or a while has passed), so that simultaneous submissions do not exceed a limit together.
--
-- Live tasks are counted exactly, in a set for each app. Queued targets are summed over the app's live tasks at most
-- twice a second; less often for an app with more than 5,000 tasks, so that it takes a few percent of Redis' time at
-- most. Sizes of tasks admitted in between are added to the sum. So settling targets updates no counter, nothing can
-- drift, and a rebuilt view counts the same.
--
-- KEYS[1] prefix
-- ARGV[1] app, [2] task, [3] expected targets (0 if unknown), [4] ms a reservation lasts, [5] submitter, who takes the
--   task's lease ('': no lease), [6] the submitter as shown to others
-- Returns {verdict, limit, present number, lease state, who, since_ms, until_ms}. verdict: '' admitted; known: the task
--   exists already; tasks or targets: the limit that is reached; view: the view is being rebuilt and cannot tell. The
--   lease (submission.lua) is taken with the verdicts '' and known; its state is '' if none was requested

-- include: submission.lua
-- include: app_tasks.lua

local app, task, expected, reserved_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now, key = now_ms(), admitted_key(app)

local function admitted(verdict)
  if ARGV[5] == '' then return { verdict, 0, 0, '', '', 0, 0 } end
  return { verdict, 0, 0, unpack(take_lease(task, ARGV[5], ARGV[6])) }
end

local function refused(verdict, limit, there)
  return { verdict, limit, there, '', '', 0, 0 }
end

local function limit_of(kind)
  local name = 'limit:' .. kind .. ':'
  local got = redis.call('HMGET', P .. ':globals', name .. app, name .. '*')
  local own = tonumber(got[1] or 0)
  return own > 0 and own or tonumber(got[2] or 0)
end

-- Returns the reserved tasks and targets, the last sum and its time; forgets reservations that have expired.
local function reserved()
  local found = { tasks = 0, targets = 0, sum = 0, summed_ms = 0, mine = false }
  local got = redis.call('HGETALL', key)
  for index = 1, #got, 2 do
    local name, at, size = got[index], string.match(got[index + 1], '^(%d+):(%d+)$')
    if name == '' then
      found.summed_ms, found.sum = tonumber(at), tonumber(size)
    elseif tonumber(at) <= now or tonumber(at) > now + reserved_ms then -- the second: the clock was set back
      redis.call('HDEL', key, name)
    elseif name == task then
      found.mine = true
    else
      found.tasks, found.targets = found.tasks + 1, found.targets + tonumber(size)
    end
  end
  return found
end

local function keep(name, at, size)
  redis.call('HSET', key, name, int_text(at) .. ':' .. int_text(size))
  redis.call('PEXPIRE', key, reserved_ms)
end

if ARGV[5] ~= '' and redis.call('HEXISTS', task_key(task), 'record_pos') == 1 then return admitted('known') end
local most_tasks, most_targets = limit_of('tasks'), limit_of('targets')
if most_tasks == 0 and most_targets == 0 then return admitted('') end
if redis.call('SISMEMBER', app_key(app), task) == 1 then return admitted('') end
local epoch = redis.call('HMGET', P .. ':epoch', 'id', 'ready')
if epoch[1] and epoch[2] ~= '1' then return refused('view', 0, 0) end

local waiting, live = reserved(), redis.call('SCARD', app_key(app))
if not waiting.mine then
  if most_tasks > 0 and live + waiting.tasks >= most_tasks then return refused('tasks', most_tasks, live + waiting.tasks) end
  if most_targets > 0 then
    if math.abs(now - waiting.summed_ms) >= math.max(500, live / 10) then
      waiting.sum, waiting.summed_ms = queued_of_app(app) + waiting.targets, now
    end
    if waiting.sum + expected > most_targets then
      keep('', waiting.summed_ms, waiting.sum)
      return refused('targets', most_targets, waiting.sum)
    end
    keep('', waiting.summed_ms, waiting.sum + expected)
  end
end
keep(task, now + reserved_ms, expected)
return admitted('')
