#!lua flags=allow-oom
-- Folds records of one outcome topic into the view and moves the cursor, both or neither. dispatcher/fold_cost.py
-- limits the size of a call.
--
-- KEYS[1] prefix
-- ARGV[1] partition, [2] cursor expected ('' for none), [3] new cursor, then the records (records.lua)
-- Returns {1, new cursor, ids of tasks that now have an outcome for every target}; {0, cursor} if the cursor was not
-- the expected one, a snapshot is being restored, or the view has a higher form or is held by another Redis

-- include: keys.lua
-- include: records.lua
-- include: outcomes.lua
-- include: freeing.lua
-- include: epoch_read.lua
-- include: task_end.lua
-- include: skipped_records.lua
-- include: form.lua
-- include: unrecorded.lua

local partition, expected, cursor = ARGV[1], ARGV[2], ARGV[3]
local cursor_key = P .. ':fold:' .. partition

-- Gives all open targets of a task one outcome. Without a seal, the task's total is its published targets, unless the
-- view is not ready and may not know them all. In that case, and if the seal does not count yet, the targets stay open,
-- and the task is closed again later.
local function close_task(record)
  local counts = counts_of(record.task)
  if counts.ended then return end
  local finals = counts.finals + added_to(counts)
  if not counts.sealed and redis.call('HGET', P .. ':epoch', 'ready') == '1' then
    counts.sealed, counts.total = true, math.max(counts.published, finals)
    redis.call('HSET', task_key(counts.task), 'sealed', '1', 'total', int_text(counts.total))
  end
  local open = is_settled(counts.seal_pos, control_cursor()) and math.max(counts.total - finals, 0) or 0
  counts.by_code[record.code] = counts.by_code[record.code] + open
  counts.over = true
  note_time(counts, record.at_ms)
  redis.call('HSET', task_key(counts.task), 'closed', '1')
end

-- Ends claims. The envelopes they still hold are not recorded anywhere before this point, so they may be granted again.
-- Their targets that were due may have been sent: a possible repeat each, and a try.
local function end_claims(record)
  for _, member in ipairs(record.members) do
    local claim, freed = claim_of(member), 0
    if claim then
      local name = string.sub(member, 1, string.find(member, '|', 1, true) - 1)
      for _, run in ipairs(claim.runs) do
        tally('expired', run, run.count * run.size)
        freed = freed + run.size * free_run(task_of_claim(member), run, name, now_ms())
      end
      claim.runs, claim.changed = {}, true
      if freed > 0 then redis.call('HINCRBY', P .. ':stats', 'repeats_possible', int_text(freed)) end
    else
      release_unrecorded(member)
      drop_lost_claim(member)
    end
  end
  save_claims()
end

local function fold_record(record)
  if record.kind == 'outcomes' then
    fold_outcomes(record)
  elseif record.kind == 'close' then
    close_task(record)
  elseif record.kind == 'claims ended' then
    end_claims(record)
  elseif record.kind == 'mark' then
    epoch_read(partition, record.epoch)
  else
    keep_skipped(partition, record.position, record.note)
  end
end

local stored = redis.call('HGET', cursor_key, 'cursor')
if (stored or '') ~= expected then return { 0, stored or '' } end
if (redis.call('HGET', P .. ':epoch', 'restoring') or '0') ~= '0' then return { 0, stored or '' } end
if is_closed_view() then return { 0, stored or '' } end
for i = 4, #ARGV do fold_record(read_record(ARGV[i])) end
save_claims()
save_tally()
save_counts()
if cursor ~= expected then redis.call('HSET', cursor_key, 'cursor', cursor) end

local finished = {}
for _, task in ipairs(call.counted) do
  if is_complete(task) then finished[#finished + 1] = task end
end
return { 1, cursor, finished }
