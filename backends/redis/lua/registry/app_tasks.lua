-- library
-- include: keys.lua
-- The live tasks of each app, and its tasks that are admitted but not registered yet.

local function app_key(app)
  return P .. ':app:' .. app
end

-- Hash: task -> `<reserved until, ms>:<targets>`; and under '' `<ms>:<sum>`: when the queued targets were last summed,
-- and that sum with the targets admitted since.
local function admitted_key(app)
  return P .. ':admitted:' .. app
end

-- Adds a live task to its app's set, or removes an ended one.
local function list_under_app(task, app, live)
  if not live then
    redis.call('SREM', app_key(app), task)
  elseif redis.call('SADD', app_key(app), task) == 1 then
    redis.call('HDEL', admitted_key(app), task)
  end
end

-- Returns a task's queued targets: its size as far as it is known, minus the settled targets.
local function queued_of_task(task)
  local got = redis.call('HMGET', task_key(task), 'sealed', 'total', 'expected', 'published', 'finals')
  local size = tonumber(got[2] or 0)
  if got[1] ~= '1' then size = math.max(tonumber(got[3] or 0), tonumber(got[4] or 0)) end
  return math.max(0, size - tonumber(got[5] or 0))
end

local function queued_of_app(app)
  local queued = 0
  for _, task in ipairs(redis.call('SMEMBERS', app_key(app))) do queued = queued + queued_of_task(task) end
  return queued
end
