-- library

-- Deletes every key that matches a pattern; returns their number.
local function wipe_all(pattern)
  local cursor, deleted = '0', 0
  repeat
    local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 1000)
    cursor = page[1]
    if #page[2] > 0 then deleted = deleted + redis.call('UNLINK', unpack(page[2])) end
  until cursor == '0'
  return deleted
end
