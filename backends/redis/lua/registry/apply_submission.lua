#!lua flags=allow-oom
-- Applies an Announced or a TakenOver: keeps it unchanged, with its position, until a checkpoint has passed it.
-- dispatcher/wire/submission.py and `may_seal` interpret these records in the order of the topic.
--
-- KEYS[1] prefix
-- ARGV[1] task, [2] position, [3] the record
-- Returns 0

-- include: submission.lua
-- include: task_index.lua

local MOST = 100
local task, position = ARGV[1], ARGV[2]
local key = task_key(task)
local known = redis.call('HMGET', key, 'ckpt:0', 'lane')
local stored = known[1] and read_checkpoint(known[1]).targets or 0

local entries = { read_entry({ position, cmsgpack.unpack(ARGV[3]) }) }
for _, entry in ipairs(entries_of(task)) do
  local is_below = entry.tag == 'a' and entry.targets <= stored
  if entry.position ~= position and not is_below then entries[#entries + 1] = entry end
end
table.sort(entries, function(a, b) return a.position < b.position end)
-- A takeover whose submitter announced nothing before the next takeover carries no information. It is dropped only
-- beyond MOST records, since the last but one may still be read.
local index = 1
while #entries > MOST and index < #entries - 1 do
  local one, other = entries[index], entries[index + 1]
  if one.tag == 'o' and other.tag == 'o' then
    table.remove(entries, one.at_ms < other.at_ms and index or index + 1)
  else
    index = index + 1
  end
end
local packed = {}
for i, entry in ipairs(entries) do packed[i] = entry.packed end
redis.call('HSET', key, 'submission', cmsgpack.pack(packed))
if not known[2] then reindex(task) end
return 0
