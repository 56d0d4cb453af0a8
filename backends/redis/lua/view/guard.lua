-- library
-- Wraps every script that may write. Redis keeps the writes of a script that fails, so the view cannot be trusted after
-- that: it is marked as broken, grants nothing, and is rebuilt from Pulsar (consumers/upkeep/rebuild.py). A script that
-- fails before its first write has changed nothing.
local server, wrote = redis, false
local READS = { -- written out: every call of every script makes this table, and splitting a text took 10 us
  BITCOUNT = true, BITFIELD_RO = true, BITPOS = true, EXISTS = true, GET = true, GETBIT = true, HEXISTS = true,
  HGET = true, HGETALL = true, HKEYS = true, HLEN = true, HMGET = true, PTTL = true, SCAN = true, SCARD = true,
  SISMEMBER = true, SMEMBERS = true, STRLEN = true, TIME = true, TYPE = true, ZCARD = true, ZCOUNT = true,
  ZRANGE = true, ZRANGEBYSCORE = true, ZREVRANGE = true, ZREVRANK = true, ZSCORE = true,
}

local redis = { error_reply = server.error_reply }

function redis.call(name, ...)
  if READS[name] then return server.call(name, ...) end
  local answer = server.call(name, ...)
  wrote = true
  return answer
end

local function script()
-- the script
end

local done, answer = pcall(script)
if done then return answer end
local cause = type(answer) == 'table' and answer.err or tostring(answer)
if wrote and server.call('HEXISTS', KEYS[1] .. ':epoch', 'id') == 1 then
  server.call('HSET', KEYS[1] .. ':epoch', 'ready', '0', 'broken', cause)
end
return server.error_reply(cause)
