#!lua flags=allow-oom
-- Applies an EpochStarted record. If it comes after our own and has another address, another Redis holds the view: the
-- installation has moved there, and nothing is granted here any more.
--
-- KEYS[1] prefix
-- ARGV[1] position, [2] epoch, [3] address of its Redis, '' if the record does not say, [4] ms of the longest claim
--   that its writer knows of
-- Returns 0

-- include: feed.lua
-- include: longest_claim.lua

local key = P .. ':epoch'
local got = redis.call('HMGET', key, 'id', 'address', 'announced_at')
if got[1] then note_longest_claim(tonumber(ARGV[4])) end
if ARGV[3] == '' or not (got[1] and got[2] and got[3]) then return 0 end

-- A restart of Redis changes the part after the dot (note_restart.lua).
local function view_of(epoch)
  return string.match(epoch, '^[^.]*')
end

if ARGV[3] ~= got[2] and view_of(ARGV[2]) ~= view_of(got[1]) and ARGV[1] > got[3] then
  redis.call('HSET', key, 'foreign', ARGV[3])
  announce('epoch', '')
end
return 0
