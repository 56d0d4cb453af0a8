-- library
-- include: keys.lua
-- include: app_tasks.lua
-- Data derived from a task's hash: the lists it is in, and its weight in a shared lane. Called after every change of
-- the static part, the weight or the end, in any order.

local function share_of_lane(task, lane, weight)
  local key = task_key(task)
  local had = redis.call('HMGET', key, 'lane_counted', 'weight_counted')
  local had_lane, had_weight = had[1] or '', tonumber(had[2] or 0)
  if had_lane == lane and had_weight == weight then return end
  if had_lane ~= '' then
    redis.call('HINCRBY', lane_key(had_lane), 'weight', int_text(-had_weight))
    if redis.call('HINCRBY', lane_key(had_lane), 'tasks', -1) <= 0 then redis.call('DEL', lane_key(had_lane)) end
  end
  if lane ~= '' then
    redis.call('HINCRBY', lane_key(lane), 'weight', int_text(weight))
    redis.call('HINCRBY', lane_key(lane), 'tasks', 1)
    redis.call('HSET', key, 'lane_counted', lane, 'weight_counted', int_text(weight))
  else
    redis.call('HDEL', key, 'lane_counted', 'weight_counted')
  end
end

-- Moves a task to its own lane (`moved_lane`) if it got one after it was accepted into a shared lane. The two records
-- may be applied in any order, and `lane` is set only when the task's record is known.
local function leave_shared_lane(task)
  local got = redis.call('HMGET', task_key(task), 'moved_lane', 'record_pos')
  if got[1] and got[2] then redis.call('HSET', task_key(task), 'lane', got[1], 'shared', '0') end
end

-- Updates the lists. A hash without the static part gets an expiry: its task record may never be read.
local function reindex(task)
  local key = task_key(task)
  local got = redis.call('HMGET', key, 'lane', 'shared', 'weight', 'ended', 'finished_ms', 'created_ms', 'app')
  local lane, ended = got[1], (got[4] or '') ~= ''
  if lane then
    redis.call('ZADD', P .. ':index', got[6], task)
    list_under_app(task, got[7], not ended)
  end
  if ended then
    redis.call('ZADD', P .. ':ended', got[5], task)
    redis.call('ZREM', P .. ':tasks', task)
  elseif lane then
    redis.call('ZADD', P .. ':tasks', got[6], task)
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, TOMBSTONE_MS)
  end
  if lane and got[2] == '1' and not ended then
    share_of_lane(task, lane, tonumber(got[3]))
  else
    share_of_lane(task, '', 0)
  end
end
