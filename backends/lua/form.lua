-- library
-- include: keys.lua
-- The form of the view that these scripts keep, as in dispatcher/view_form.py.
local FORM = 2

-- Whether the view is of a higher form, which a newer version keeps: nothing is granted or folded in it here.
local function is_newer_view()
  return tonumber(redis.call('HGET', P .. ':epoch', 'form') or 1) > FORM
end
