-- library
-- A heap of entries ordered by time, then place; the first is the smallest.
local function is_before(a, b)
  if a.time ~= b.time then return a.time < b.time end
  return a.place < b.place
end

-- Moves the first entry of a heap to its right position.
local function sift(heap)
  local at, size = 1, #heap
  while true do
    local least, left = at, 2 * at
    if left <= size and is_before(heap[left], heap[least]) then least = left end
    if left < size and is_before(heap[left + 1], heap[least]) then least = left + 1 end
    if least == at then return end
    heap[at], heap[least] = heap[least], heap[at]
    at = least
  end
end
