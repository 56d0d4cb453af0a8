-- library
-- include: tasks.lua
-- The time for which targets were paused since their first call: their task, its channel or its flow, by the pauses that
-- are noted (backends/redis/lua/registry/pauses.lua). It does not count towards their age.
do
  -- Adds the pauses in a text to spans: `<position>=<1 or 0>@<ms>[:<until_ms>]`, in their order.
  local function add_spans(spans, text, now)
    local from, ends
    local function close(at)
      if from then spans[#spans + 1] = { from, math.min(at, ends) } end
      from = nil
    end
    for value, at, until_ms in string.gmatch(text or '', '=([01])@(%d+):?(%d*)') do
      close(tonumber(at))
      if value == '1' then from, ends = tonumber(at), until_ms ~= '' and tonumber(until_ms) or now end
    end
    close(now)
  end

  -- Returns the spans in which the task was paused, in the order of their beginnings.
  local function spans_of(task, now)
    if task.spans then return task.spans end
    local channel, spans = 'pauses|' .. task.channel, {}
    add_spans(spans, redis.call('HGET', task_key(task.id), 'pauses'), now)
    for _, text in ipairs(redis.call('HMGET', P .. ':globals', channel, channel .. ':' .. task.app)) do
      add_spans(spans, text or '', now)
    end
    table.sort(spans, function(a, b) return a[1] < b[1] end)
    task.spans = spans
    return spans
  end

  -- Returns the milliseconds of these spans since a time, those of several at once counted once.
  local function sum_since(spans, since)
    local sum, reached = 0, since
    for _, span in ipairs(spans) do
      sum = sum + math.max(span[2] - math.max(span[1], reached), 0)
      reached = math.max(reached, span[2])
    end
    return sum
  end

  -- Returns the groups of an envelope with the time that each was paused since its first call; nil if none was since
  -- first_ms, the earliest of them.
  function call.groups_with_pauses(task, groups, first_ms, now)
    local spans, found = spans_of(task, now), {}
    if sum_since(spans, first_ms) == 0 then return nil end
    for i, group in ipairs(groups) do
      local positions, tries, due_ms, first = unpack(group, 1, 4)
      local paused_ms = first > 0 and sum_since(spans, first) or 0
      found[i] = { positions, tries, due_ms, first, group[5] or false, group[6] or false, paused_ms }
    end
    return found
  end
end
