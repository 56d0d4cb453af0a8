-- library
-- Runs a command on a key with many words, a page at a time, since Lua's `unpack` takes about 8,000. Returns the answers
-- in order.
local function in_pages(command, key, words)
  local answers = {}
  for from = 1, #words, 1000 do
    local page = redis.call(command, key, unpack(words, from, math.min(from + 999, #words)))
    if #words <= 1000 then return page end
    if type(page) == 'table' then
      for _, answer in ipairs(page) do answers[#answers + 1] = answer end
    end
  end
  return answers
end
