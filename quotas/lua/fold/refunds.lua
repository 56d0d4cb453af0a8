-- library
-- include: settings.lua
-- Refunds of targets that were leased and not sent. The record that says so cuts its envelopes out of their claim, once,
-- so nothing is refunded twice.
local envelope_name, unsent_of, refund_unsent
do
  function envelope_name(writer, attempt, sequence)
    return writer .. ' ' .. int_text(attempt) .. ' ' .. int_text(sequence)
  end

  -- Returns the number of unsent targets in a run of a claim. sent: by envelope, the targets that were sent.
  function unsent_of(run, sent)
    local unsent = 0
    if next(sent) == nil or run.paid == '' then return unsent end
    for sequence = run.first, run.first + run.count - 1 do
      local number = sent[envelope_name(run.writer, run.attempt, sequence)]
      if number then unsent = unsent + math.max(run.size - number, 0) end
    end
    return unsent
  end

  -- Returns the rates by name of the pools that get targets of an app on a channel back. A paced cap does not: its time
  -- line has moved on, and other targets may have been promised what follows. Nor does a quota group's, which may count
  -- requests.
  local function refunded_pools(app, channel)
    local names, fields, rates = { 'total', unpack(capped_by(app, channel), 1, 3) }, {}, {}
    for i, name in ipairs(names) do fields[i] = name == 'total' and 'capacity' or cap_field(name) end
    for i, text in ipairs(redis.call('HMGET', P .. ':globals', unpack(fields))) do
      local rate, burst = read_cap(text)
      local is_paced = burst == 0 and names[i] ~= 'total' and not string.match(names[i], '^app/')
      if rate > 0 and not is_paced then rates[names[i]] = rate end
    end
    return rates
  end

  -- Adds to a bucket what its cap has not let through since the grant anyway: the time since then has refilled the rest,
  -- and a refund of it would save up more than the bucket holds.
  local function refund_bucket(key, field, rate, targets, age_us)
    local amount = targets * UNIT - rate * age_us
    if amount > 0 and redis.call('HEXISTS', key, field) == 1 then
      redis.call('HINCRBY', key, field, int_text(amount))
    end
  end

  -- Refunds targets of a task that were granted at a time, by the tier that paid for them. What a bucket cannot hold is
  -- cut when it is next read.
  function refund_unsent(id, granted_ms, unsent)
    if next(unsent) == nil then return end
    local age_us = math.max(now_ms() - granted_ms, 0) * 1000
    local values = redis.call('HMGET', task_key(id), 'cap', 'app', 'channel')
    local task_rate = read_cap(values[1])
    local pools = refunded_pools(values[2] or '', values[3] or '')
    for tier, targets in pairs(unsent) do
      if task_rate > 0 then refund_bucket(task_key(id), 'cap_bucket', task_rate, targets, age_us) end
      for name, rate in pairs(pools) do
        refund_bucket(P .. ':pool:' .. name, 'bucket:' .. tier, rate, targets, age_us)
      end
    end
  end
end
