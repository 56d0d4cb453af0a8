#!lua flags=allow-oom
-- Applies an EpochStarted record. If it comes after our own and has another address, another Redis holds the view: the
-- installation has moved there, and nothing is granted here any more. If it is of our view after a later failover, this
-- Redis is a former primary that does not know it yet: it grants nothing until it is restarted, or has become a replica
-- and holds what the new primary holds.
--
-- KEYS[1] prefix
-- ARGV[1] position, [2] epoch, [3] address of its Redis, '' if the record does not say, [4] ms of the longest claim
--   that its writer knows of
-- Returns 0

-- include: feed.lua
-- include: longest_claim.lua
-- include: view_run.lua

local key = P .. ':epoch'
local got = redis.call('HMGET', key, 'id', 'address', 'announced_at')
if got[1] then note_longest_claim(tonumber(ARGV[4])) end
if ARGV[3] == '' or not (got[1] and got[2] and got[3]) or ARGV[1] <= got[3] then return 0 end

if view_of(ARGV[2]) ~= view_of(got[1]) then
  if ARGV[3] ~= got[2] then
    redis.call('HSET', key, 'foreign', ARGV[3])
    announce('epoch', '')
  end
elseif number_of(ARGV[2]) > number_of(got[1]) then
  redis.call('HSET', key, 'deposed', ARGV[2], 'ready', '0')
  announce('epoch', '')
end
return 0
