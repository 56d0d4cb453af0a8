-- library
-- include: keys.lua
-- include: settings.lua
-- include: seals.lua
-- The part of a task's hash that the ledger needs, read once per call, and its consequences for the task's envelopes.
-- constants: GRANTED, NO_CREDIT, HELD, DROP, REPUBLISH, CANCELLED, EXPIRED, UNKNOWN, PARKED, MOVE, MAIN_WRITER
local GRANTABLE = -1
local TASK_FIELDS = {
  'lane', 'shared', 'tier', 'weight', 'cap', 'paused', 'cancelled', 'start_ms', 'expires_ms', 'hold', 'sealed',
  'writers', 'ended', 'closed', 'cap_bucket', 'cap_us', 'app', 'channel', 'why_ms', 'stopped',
  'cap_rate', 'sealed_pos', 'first', 'chunk', 'paused_pos',
}

-- Returns a task. trial: the number of envelopes that a trial send may send before its go, else 0. Until the go, which
-- is the first change of the control `paused`, the task is paused, so no worker holds its lane. Its first envelopes are
-- in a retry lane, which all workers hold. They are known by their sequences: copies, moves and deaths of workers send
-- no others. lane is false if the task's record has not been read. The cap is stored as `RATE` or `RATE:BURST`.
local function task_of(id)
  local task = call.tasks[id]
  if task then return task end
  local values = redis.call('HMGET', task_key(id), unpack(TASK_FIELDS))
  task = { id = id, lane = values[1], shared = values[2] == '1', tier = values[3] or '' }
  task.weight = math.max(int(values[4]), 1)
  task.cap, task.cap_burst = read_cap(values[5])
  task.paused, task.cancelled = values[6] == '1', values[7] == '1' or values[20] ~= false
  task.start_ms, task.expires_ms, task.hold = int(values[8]), int(values[9]), values[10] == '1'
  call.cursor = call.cursor or control_cursor()
  task.sealed = values[11] == '1' and is_settled(values[22], call.cursor)
  task.over = (values[13] or '') ~= '' or values[14] == '1'
  task.writers = (task.sealed and (values[12] or '') ~= '') and ',' .. values[12] .. ','
  task.unrecorded = call.holds_unrecorded and redis.call('HEXISTS', P .. ':unrecorded', id) == 1
  task.counts = {}
  task.bucket, task.bucket_us = values[15] and int(values[15]), int(values[16])
  task.bucket_rate = int(values[21])
  task.app, task.channel, task.why_ms = values[17] or '', values[18] or '', int(values[19])
  task.chunk = math.max(int(values[24]), 1)
  task.trial = values[25] and 0 or math.ceil(int(values[23]) / task.chunk)
  if task.lane then want_settings(task.app, task.channel) end
  call.tasks[id] = task
  return task
end

local function is_own(task, lane)
  return task.lane == lane.name and not task.shared
end

-- Returns the lane to which a task's envelopes leave a shared or retry lane: its own, or a side lane.
local function exit_lane(task)
  if not task.shared then return task.lane end
  local lane = 'persistent://' .. call.shared_namespace .. '/side.' .. task.app .. '~' .. task.channel
  redis.call('SADD', P .. ':sides', lane)
  return lane
end

-- Returns the status of a task's unclaimed envelopes in a lane, GRANTABLE or another, and the lane to move to. While a
-- live worker holds outcomes of the task that no topic has (backends/redis/lua/workers/unrecorded.lua), nothing of it
-- is granted: the worker may have sent it already. sequence: of one of them; without it they are the lane as a whole.
-- In a trial send the pause does not hold the first envelopes. Whatever else holds them, they stay where workers find
-- them.
local function gate(task, lane, now, sequence)
  if task.unrecorded then return HELD, '' end
  local expired, in_trial = task.expires_ms > 0 and task.expires_ms <= now, sequence and sequence < task.trial
  local waits = (task.paused and not in_trial) or task.start_ms > now or (task.hold and not task.sealed)
  local stopped = is_stopped(task.app, task.channel, now)
  if not (task.cancelled or expired or waits or stopped) then return GRANTABLE, '' end
  if in_trial and not (task.cancelled or expired) then return HELD, '' end
  if is_own(task, lane) then return PARKED, '' end
  if not task.shared then return MOVE, task.lane end
  if task.cancelled then return CANCELLED, '' end
  if expired then return EXPIRED, '' end
  if stopped and lane.kind ~= 'd' then return MOVE, exit_lane(task) end
  return PARKED, ''
end

-- As `gate`, for a first attempt: a task that got its own lane leaves the lanes of others in any state.
local function gate_of_first(task, lane, now, sequence)
  if not task.shared and task.lane ~= lane.name and sequence >= task.trial then return MOVE, task.lane end
  return gate(task, lane, now, sequence)
end

-- Returns nil if the writer's envelopes count, else their status. A seal may name thousands of writers, so each writer
-- is looked up once per call.
local function writer_status(task, writer)
  if task.writers then
    if task.counts[writer] == nil then
      task.counts[writer] = string.find(task.writers, ',' .. writer .. ',', 1, true) ~= nil
    end
    if task.counts[writer] then return nil end
    return DROP
  end
  if writer == MAIN_WRITER then return nil end
  return HELD
end

-- Refills the bucket of a task's cap and returns its level; nil without a cap. A new bucket is full. The time since the
-- last read counts at the lowest rate the cap had meanwhile: a new, higher rate would credit more than was allowed.
local function cap_level(task, now)
  if task.cap <= 0 then return nil end
  local depth = depth_of(task.cap, task.cap_burst)
  if not task.bucket then task.bucket, task.bucket_us = depth, now * 1000 end
  local rate = lowest_rate(task.bucket_rate, task.cap)
  local elapsed = math.min(math.max(now * 1000 - task.bucket_us, 0), div(LARGEST, rate))
  task.bucket = math.min(task.bucket + elapsed * rate, depth)
  task.bucket_us, task.bucket_rate = now * 1000, task.cap
  task.bucket_changed = true
  return task.bucket
end

local function save_buckets()
  for id, task in pairs(call.tasks) do
    if task.bucket_changed then
      local key, at = task_key(id), int_text(task.bucket_us)
      redis.call('HSET', key, 'cap_bucket', int_text(task.bucket), 'cap_us', at, 'cap_rate', int_text(task.bucket_rate))
    end
  end
end
