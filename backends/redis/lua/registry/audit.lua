-- library
-- include: keys.lua
-- constants: MAX_AUDIT, MAX_AUDIT_OF_APP

local function drop_audit_entry(id, app)
  redis.call('ZREM', P .. ':audit', id)
  redis.call('HDEL', P .. ':audit_entry', id)
  if app ~= '' then redis.call('ZREM', P .. ':audit_of:' .. app, id) end
end

-- Keeps a change that a person or a key made: the newest MAX_AUDIT, at most MAX_AUDIT_OF_APP of one app. A repeat
-- changes nothing. packed: cmsgpack of an AuditEntry (backends/redis/registry/audit.py).
local function keep_audit_entry(id, packed)
  if redis.call('ZSCORE', P .. ':audit', id) then return end
  local entry = cmsgpack.unpack(packed)
  local app, at_ms = entry[1], int_text(entry[2])
  redis.call('ZADD', P .. ':audit', at_ms, id)
  redis.call('HSET', P .. ':audit_entry', id, packed)
  if app ~= '' then
    local of_app = P .. ':audit_of:' .. app
    redis.call('ZADD', of_app, at_ms, id)
    if redis.call('ZCARD', of_app) > MAX_AUDIT_OF_APP then drop_audit_entry(redis.call('ZRANGE', of_app, 0, 0)[1], app) end
  end
  if redis.call('ZCARD', P .. ':audit') > MAX_AUDIT then
    local oldest = redis.call('ZRANGE', P .. ':audit', 0, 0)[1]
    drop_audit_entry(oldest, cmsgpack.unpack(redis.call('HGET', P .. ':audit_entry', oldest))[1])
  end
end

-- Notes the change of a record of the control topic. by: '' if a worker made it by itself, which is not kept.
local function note_audit(position, at_ms, app, by, request, task, field, before, after)
  if by == '' then return end
  keep_audit_entry('c:' .. position, cmsgpack.pack({ app, tonumber(at_ms), by, request, task, field, before, after }))
end
