-- library
-- The id of an epoch is VIEW, and after restarts or failovers VIEW.NUMBER-RUN: how many there were, and the run id of
-- the last.

local function view_of(epoch)
  return string.match(epoch, '^[^.]*')
end

local function number_of(epoch)
  return tonumber(string.match(epoch, '%.(%d+)%-') or 0)
end
