-- library
-- include: keys.lua

-- Whether every target of a sealed task has an outcome and its end is not yet written. Says no while the view is not
-- ready: a view being rebuilt knows too little.
local function is_complete(task)
  if redis.call('HGET', P .. ':epoch', 'ready') ~= '1' then return 0 end
  local got = redis.call('HMGET', task_key(task), 'lane', 'sealed', 'total', 'finals', 'ended')
  if got[1] and got[2] == '1' and (got[5] or '') == '' and tonumber(got[3] or 0) == tonumber(got[4] or 0) then
    return 1
  end
  return 0
end

-- What an ended task needs no more.
local function clear(task)
  local gone = { P .. ':open:' .. task }
  local writers = { '0' }
  for writer in string.gmatch(redis.call('HGET', task_key(task), 'writers') or '', '[^,]+') do
    writers[#writers + 1] = writer
  end
  for _, writer in ipairs(writers) do
    gone[#gone + 1] = P .. ':final:' .. task .. ':' .. writer
    gone[#gone + 1] = P .. ':touched:' .. task .. ':' .. writer
  end
  redis.call('UNLINK', unpack(gone))
end
