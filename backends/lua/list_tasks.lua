-- Lists tasks, newest first, one page.
--
-- KEYS[1] prefix
-- ARGV[1] tasks (live ones, by creation) | index (all, by creation) | ended (by end), [2] state or '', [3] app or '', [4] tier or '',
--      [5] most rows, [6] most tasks looked at, [7] and [8] the last page's score and id, or '',
--      [9] number n of fields, then n fields. The first eight are: ended, cancelled, expires_ms, paused, start_ms, lane,
--      app, tier
-- Returns {now_ms, score, id, row...}: where the next page begins ('' for both: this was the last), rows as in read_tasks

-- include: keys.lua
-- include: clock.lua
-- include: task_state.lua

local now = now_ms()
local listed = P .. ':' .. ARGV[1]
local state, app, tier = ARGV[2], ARGV[3], ARGV[4]
local most_rows, most_looks = tonumber(ARGV[5]), tonumber(ARGV[6])
local fields = { unpack(ARGV, 10, 9 + tonumber(ARGV[9])) }

local start = 0
if ARGV[8] ~= '' then
  local rank = redis.call('ZREVRANK', listed, ARGV[8])
  -- The last one of the page before may be gone by now.
  start = rank and rank + 1 or redis.call('ZCOUNT', listed, '(' .. ARGV[7], '+inf')
end
local found = redis.call('ZREVRANGE', listed, start, start + most_looks - 1, 'WITHSCORES')

local rows, gone, place = {}, {}, 0
while place < #found and #rows < most_rows do
  local task = found[place + 1]
  local got = redis.call('HMGET', task_key(task), unpack(fields))
  if not got[6] then
    gone[#gone + 1] = task
  elseif (app == '' or got[7] == app) and (tier == '' or got[8] == tier) then
    local is = state_of(got[1], got[2], got[3], got[4], got[5], now)
    if state == '' or state == is then rows[#rows + 1] = { task, is, got } end
  end
  place = place + 2
end

local answer = { now, '', '' }
if place < #found or #found == 2 * most_looks then
  answer = { now, found[place], found[place - 1] }
end
for _, row in ipairs(rows) do answer[#answer + 1] = row end
-- Their tombstones have expired.
if #gone > 0 and ARGV[1] ~= 'ended' then redis.call('ZREM', listed, unpack(gone)) end
return answer
