#!lua flags=allow-oom
-- Writes one part of a snapshot (dispatcher.wire.snapshot) to a view that is being rebuilt. A repeat changes nothing.
--
-- KEYS[1] prefix
-- ARGV[1] the restorer's name from begin_restore.lua, [2] kind, then: task: id, ms kept, field, value...; bits: id,
--   writer, offset, bits; open: id, name, state...; settings or access: field, value...; audit: id, packed...;
--   passed: topic, position, note...
-- Returns 1, or 0 if Redis now holds another view, the restore has ended, or another restorer took over

-- include: writers.lua
-- include: task_index.lua
-- include: pauses.lua
-- include: keep_flow.lua
-- include: audit.lua

local put = {}

-- Writes the rest of ARGV, fields and values alternating. A Redis call takes about 8,000 arguments at most.
local function put_fields(key, first)
  for from = first, #ARGV, 1000 do
    redis.call('HSET', key, unpack(ARGV, from, math.min(from + 999, #ARGV)))
  end
end

-- Writes a task. Deletes its existing state first, which may come from a newer snapshot that turned out unreadable.
function put.task(task, kept_ms)
  share_of_lane(task, '', 0)
  for writer in pairs(writers_of(task)) do redis.call('UNLINK', final_key(task, writer), touched_key(task, writer)) end
  redis.call('UNLINK', task_key(task), open_key(task))
  put_fields(task_key(task), 5)
  reindex(task)
  if tonumber(kept_ms) > 0 then redis.call('PEXPIRE', task_key(task), kept_ms) end
end

function put.bits(task, writer, offset, bits)
  redis.call('SETRANGE', final_key(task, writer), offset, bits)
  redis.call('SETRANGE', touched_key(task, writer), offset, bits)
end

function put.open(task)
  for i = 4, #ARGV, 2 do
    local state = read_open(ARGV[i + 1])
    local writer, sequence = string.match(ARGV[i], '^(.*):(%d+)$')
    state.claimed, state.claim = -1, ''
    write_open(task, ARGV[i], state)
    redis.call('SETBIT', touched_key(task, writer), sequence, 1)
  end
end

function put.settings()
  redis.call('UNLINK', P .. ':globals', P .. ':paused', P .. ':flows')
  put_fields(P .. ':globals', 3)
  for i = 3, #ARGV, 2 do
    keep_paused(ARGV[i], ARGV[i + 1])
    keep_flow(ARGV[i], ARGV[i + 1])
  end
end

function put.access()
  redis.call('UNLINK', P .. ':access')
  put_fields(P .. ':access', 3)
end

function put.audit()
  for i = 3, #ARGV, 2 do keep_audit_entry(ARGV[i], ARGV[i + 1]) end
end

function put.passed(topic)
  put_fields(P .. ':passed:' .. topic, 4)
end

if redis.call('HGET', P .. ':epoch', 'restoring') ~= ARGV[1] then return 0 end
put[ARGV[2]](ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return 1
