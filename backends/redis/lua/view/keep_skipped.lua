#!lua flags=allow-oom
-- Keeps the positions of records that were skipped.
--
-- KEYS[1] prefix
-- ARGV[1] topic (`control`, or the number of an outcome partition), then positions and notes alternating
-- Returns 0

-- include: skipped_records.lua

for index = 2, #ARGV, 2 do keep_skipped(ARGV[1], ARGV[index], ARGV[index + 1]) end
return 0
