#!lua flags=allow-oom
-- Applies a GlobalChange: for each setting, the last in the topic counts. Its position is kept in the field
-- `pos|<field>`, which cannot be mistaken for a setting of an app or a channel of that name. The times when a channel
-- was paused and resumed are kept in `pauses|<channel>`, those of a flow in `pauses|<channel>:<app>`, with the end that a
-- pause was given: `<position>=<1 or 0>@<ms>[:<until_ms>]`.
--
-- KEYS[1] prefix
-- ARGV[1] position, [2] field (dispatcher/model/service_settings.py has them all), [3] value, [4] at_ms,
--         [5] the hash that it belongs to: globals, or access (what the door reads and no worker needs),
--         [6] app, [7] by, [8] id of the request
-- Returns 0

-- include: feed.lua
-- include: pauses.lua
-- include: keep_flow.lua
-- include: cap_rate.lua
-- include: audit.lua

local position, field, value = ARGV[1], ARGV[2], ARGV[3]
local key = P .. ':' .. ARGV[5]
local channel = string.match(field, '^channel_paused:(.*)$')
local pool = field == 'capacity' and 'total' or string.match(field, '^cap:(.*)$')

local flow = string.match(field, '^flow_paused:(.*)$')

if channel then note_pause(key, 'pauses|' .. channel, position, value, ARGV[4]) end
if flow then
  local pause = read_flow_pause(value, 0)
  local end_text = pause.stops and pause.until_ms > 0 and ':' .. int_text(pause.until_ms) or ''
  note_pause(key, 'pauses|' .. flow, position, pause.stops and '1' or '0', int_text(pause.since_ms) .. end_text)
end
local read = redis.call('HGET', key, 'pos|' .. field)
local before = read and read < position and redis.call('HGET', key, field) or ''
note_audit(position, ARGV[4], ARGV[6], ARGV[7], ARGV[8], '', field, before, value)
if read and read >= position then return 0 end

redis.call('HSET', key, field, value, 'pos|' .. field, position)
if ARGV[5] == 'access' then
  redis.call('HSET', key, 'last', position)
  return 0
end
keep_paused(field, value)
keep_flow(field, value)
if pool then note_rate(P .. ':pool:' .. string.gsub(pool, ':', '/', 1), 'rate', value) end
announce('globals', '')
return 0
