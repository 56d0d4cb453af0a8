#!lua flags=allow-oom
-- Notes that a worker of an older version folds a view of this version's form: the view is rebuilt once that worker has
-- gone.
--
-- KEYS[1] prefix
-- ARGV[1] epoch
-- Returns 1, or 0 if Redis now holds another view

-- include: form.lua

local key = P .. ':epoch'
local got = redis.call('HMGET', key, 'id', 'form')
if got[1] ~= ARGV[1] or tonumber(got[2] or 1) ~= FORM then return 0 end
redis.call('HSET', key, 'form', int_text(FORM - 1))
return 1
