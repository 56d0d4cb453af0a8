-- library
-- include: feed.lua

-- Notes that a topic (`control`, or the number of an outcome partition) has been read up to the mark of an epoch. The
-- view is ready once all topics have been.
local function epoch_read(topic, epoch)
  local key = P .. ':epoch'
  local got = redis.call('HMGET', key, 'id', 'partitions', 'ready', 'read:' .. topic)
  if got[1] ~= epoch or got[4] == '1' then return 0 end
  redis.call('HSET', key, 'read:' .. topic, '1')
  if got[3] == '1' then return 0 end
  local topics = { 'read:control' }
  for partition = 0, tonumber(got[2]) - 1 do topics[#topics + 1] = 'read:' .. partition end
  for _, read in ipairs(redis.call('HMGET', key, unpack(topics))) do
    if read ~= '1' then return 0 end
  end
  redis.call('HSET', key, 'ready', '1')
  announce('epoch', '')
  return 1
end
