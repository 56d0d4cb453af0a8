-- library
-- include: keys.lua

-- Whether every target of a sealed task has an outcome and its end is not yet written. Says no while the view is not
-- ready: a view being rebuilt knows too little.
local function is_complete(task)
  if redis.call('HGET', P .. ':epoch', 'ready') ~= '1' then return 0 end
  local got = redis.call('HMGET', task_key(task), 'lane', 'sealed', 'total', 'finals', 'ended')
  -- More than all: it was closed unsealed, and the seal came after all and leaves writers out.
  local is_over = tonumber(got[4] or 0) >= tonumber(got[3] or 0)
  return got[1] and got[2] == '1' and (got[5] or '') == '' and is_over and 1 or 0
end

-- What an ended task needs no more.
local function clear(task)
  redis.call('UNLINK', P .. ':open:' .. task)
  for writer in string.gmatch('0,' .. (redis.call('HGET', task_key(task), 'writers') or ''), '[^,]+') do
    redis.call('UNLINK', P .. ':final:' .. task .. ':' .. writer, P .. ':touched:' .. task .. ':' .. writer)
  end
end
