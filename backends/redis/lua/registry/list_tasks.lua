#!lua flags=allow-oom
-- Lists tasks, newest first, one page.
--
-- KEYS[1] prefix
-- ARGV[1] tasks (live ones, by creation) | index (all, by creation) | ended (by end), [2] msgpack of a map of filters:
--         state, app, tier, channel, id (a prefix of it); an absent filter matches all, [3] maximum number of rows,
--         [4] maximum number of tasks scanned, [5] and [6] score and id from the previous page, or '', [7] number n of
--         fields, then n fields. The first are those of task_state.lua
-- Returns {now_ms, score, id, row...}: score and id after which the next page begins ('' for both: this was the last),
-- rows as in read_tasks

-- include: keys.lua
-- include: clock.lua
-- include: task_state.lua

local now = now_ms()
local listed = P .. ':' .. ARGV[1]
local only = cmsgpack.unpack(ARGV[2])
local most_rows, most_looks = tonumber(ARGV[3]), tonumber(ARGV[4])
local count = tonumber(ARGV[7])
local fields = { unpack(ARGV, 8, 7 + count) }
if only.channel then fields[count + 1] = 'channel' end

local start = 0
if ARGV[6] ~= '' then
  local rank = redis.call('ZREVRANK', listed, ARGV[6])
  -- The last task of the previous page may be gone by now.
  start = rank and rank + 1 or redis.call('ZCOUNT', listed, '(' .. ARGV[5], '+inf')
end
local found = redis.call('ZREVRANGE', listed, start, start + most_looks - 1, 'WITHSCORES')

-- Returns the row of a task that passes the filters; nil if it does not; false if its tombstone has expired.
local function row_of(task)
  if only.id and string.sub(task, 1, #only.id) ~= only.id then return nil end
  local got = redis.call('HMGET', task_key(task), unpack(fields))
  if not got[6] then return false end
  if only.app and got[7] ~= only.app or only.tier and got[8] ~= only.tier then return nil end
  if only.channel then
    if got[count + 1] ~= only.channel then return nil end
    got[count + 1] = nil
  end
  local is = state_of(got, now)
  if only.state and only.state ~= is then return nil end
  return { task, is, got }
end

local rows, gone, place = {}, {}, 0
while place < #found and #rows < most_rows do
  local row = row_of(found[place + 1])
  if row then rows[#rows + 1] = row end
  if row == false then gone[#gone + 1] = found[place + 1] end
  place = place + 2
end

local answer = { now, '', '' }
if place < #found or #found == 2 * most_looks then
  answer = { now, found[place], found[place - 1] }
end
for _, row in ipairs(rows) do answer[#answer + 1] = row end
if #gone > 0 and ARGV[1] ~= 'ended' then redis.call('ZREM', listed, unpack(gone)) end
return answer
