-- library
-- include: keys.lua
-- FORM: the form of the view that these scripts write.
-- constants: FORM

-- Returns whether granting and folding are disabled here: the view has a higher form, which a newer version keeps, or
-- another Redis holds the view of this installation.
local function is_closed_view()
  local got = redis.call('HMGET', P .. ':epoch', 'form', 'foreign')
  return tonumber(got[1] or 1) > FORM or (got[2] or '') ~= ''
end
