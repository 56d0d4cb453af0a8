-- library
-- include: keys.lua
-- include: integers.lua
-- A task's time by cause, in its hash: `why`, `<cause>=<ms> ...`, with the causes counted last at the end; `why_from`
-- and `why_ms`, the start and end of the counted time.

-- Adds the task's time until now to its causes. task: {id, why_ms}. added: ms by cause.
local function add_causes(task, added, now)
  local text, from = {}, now
  for _, ms in pairs(added) do from = from - ms end
  for cause, ms in string.gmatch(redis.call('HGET', task_key(task.id), 'why') or '', '(%S+)=(%d+)') do
    if (added[cause] or 0) > 0 then
      added[cause] = added[cause] + int(ms)
    else
      text[#text + 1] = cause .. '=' .. ms
    end
  end
  for cause, ms in pairs(added) do
    if ms > 0 then text[#text + 1] = cause .. '=' .. int_text(ms) end
  end
  if task.why_ms == 0 then redis.call('HSETNX', task_key(task.id), 'why_from', int_text(from)) end
  task.why_ms = now
  redis.call('HSET', task_key(task.id), 'why_ms', int_text(now), 'why', table.concat(text, ' '))
end
