-- library
-- A heap of entries ordered by time, then index; the first is the smallest.
local function is_before(a, b)
  if a.time ~= b.time then return a.time < b.time end
  return a.index < b.index
end

-- Moves the first entry of a heap to its right position.
local function sift(heap)
  local at, size = 1, #heap
  while true do
    local smallest, left = at, 2 * at
    if left <= size and is_before(heap[left], heap[smallest]) then smallest = left end
    if left < size and is_before(heap[left + 1], heap[smallest]) then smallest = left + 1 end
    if smallest == at then return end
    heap[at], heap[smallest] = heap[smallest], heap[at]
    at = smallest
  end
end
