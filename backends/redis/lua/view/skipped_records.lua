-- library
-- include: keys.lua
-- Records that were skipped because this version cannot read them, by topic (`control`, or the number of an outcome
-- partition).
-- constants: MAX_SKIPPED_RECORDS

-- Keeps the position of a record, with the version that skipped it and the reason. If there are too many, the
-- oldest are kept and the rest only counted.
local function keep_skipped(topic, position, note)
  local key = P .. ':passed:' .. topic
  if redis.call('HEXISTS', key, position) == 0 then
    redis.call('HINCRBY', P .. ':stats', 'malformed', 1)
    if redis.call('HLEN', key) >= MAX_SKIPPED_RECORDS then
      redis.call('HINCRBY', P .. ':stats', 'malformed_not_kept', 1)
      return
    end
  end
  redis.call('HSET', key, position, note)
end
