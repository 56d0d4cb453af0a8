-- Applies an EpochMark of the control topic: it has been read as far as a rebuilt view needs.
--
-- KEYS[1] prefix
-- ARGV[1] epoch
-- Returns 1 if this made the view ready, else 0

-- include: epoch_read.lua

return epoch_read('control', ARGV[1])
