#!lua flags=allow-oom
-- Puts one part of a snapshot (dispatcher.wire.snapshot) into a view that is being rebuilt. Done again it changes nothing.
--
-- KEYS[1] prefix
-- ARGV[1] who restores, as begin_restore.lua said, [2] kind, then: task: id, ms kept, field, value...; bits: id, writer,
--   offset, bits; open: id, name, state...; settings: field, value...; passed: topic, position, note...
-- Returns 1, or 0 if the view is another by now, is restored, or somebody else restores it

-- include: writers.lua
-- include: task_index.lua
-- include: task_end.lua
-- include: clock.lua
-- include: pauses.lua

local put = {}

-- The rest of ARGV, fields and values in turn. A call takes some 8,000 words at most.
local function put_fields(key, first)
  for from = first, #ARGV, 1000 do
    redis.call('HSET', key, unpack(ARGV, from, math.min(from + 999, #ARGV)))
  end
end

-- Versions before 0.2.0 kept tombstones for eight days, and with their messages.
local function keep_tombstone(task, kept_ms)
  local ended_ms = tonumber(redis.call('HGET', task_key(task), 'finished_ms') or 0)
  local left_ms = math.min(ended_ms + TOMBSTONE_MS - now_ms(), TOMBSTONE_MS)
  redis.call('PEXPIRE', task_key(task), whole(math.max(kept_ms, left_ms)))
  drop_messages(task)
end

-- What was known of it goes first: it may be of a newer snapshot that proved unreadable half-way.
function put.task(task, kept_ms)
  share_of_lane(task, '', 0)
  for writer in pairs(writers_of(task)) do redis.call('UNLINK', final_key(task, writer), touched_key(task, writer)) end
  redis.call('UNLINK', task_key(task), open_key(task))
  put_fields(task_key(task), 5)
  reindex(task)
  if tonumber(kept_ms) > 0 then keep_tombstone(task, tonumber(kept_ms)) end
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
  redis.call('UNLINK', P .. ':globals', P .. ':paused')
  put_fields(P .. ':globals', 3)
  for i = 3, #ARGV, 2 do keep_paused(ARGV[i], ARGV[i + 1]) end
end

function put.passed(topic)
  put_fields(P .. ':passed:' .. topic, 4)
end

if redis.call('HGET', P .. ':epoch', 'restoring') ~= ARGV[1] then return 0 end
put[ARGV[2]](ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return 1
