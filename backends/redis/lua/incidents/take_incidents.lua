#!lua flags=allow-oom
-- Takes all notes of incidents, so that one process acts on them.
--
-- KEYS[1] prefix
-- ARGV[1] age in ms from which on a note is forgotten
-- Returns the notes

-- include: keys.lua
-- include: clock.lua

local key, now, notes = P .. ':incidents', now_ms(), {}
local stored = redis.call('HGETALL', key)
for index = 2, #stored, 2 do
  local at, note = stored[index]:match('^(%d+) (.*)$')
  if at and math.abs(now - tonumber(at)) <= tonumber(ARGV[1]) then notes[#notes + 1] = note end
end
if #stored > 0 then redis.call('DEL', key) end
return notes
