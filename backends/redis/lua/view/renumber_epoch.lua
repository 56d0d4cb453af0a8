#!lua flags=allow-oom
-- Gives the view an id with a higher number, since the control topic has announcements of it that Redis has lost.
--
-- KEYS[1] prefix
-- ARGV[1] epoch, [2] the highest number of these announcements
-- Returns 1, or 0 if Redis now holds another view

-- include: feed.lua
-- include: view_run.lua

local key = P .. ':epoch'
if redis.call('HGET', key, 'id') ~= ARGV[1] then return 0 end
local run = string.match(ARGV[1], '%.%d+%-(.*)$') or ''
redis.call('HSET', key, 'id', view_of(ARGV[1]) .. '.' .. int_text(tonumber(ARGV[2]) + 1) .. '-' .. run)
announce('epoch', '')
return 1
