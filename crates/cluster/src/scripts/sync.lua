-- Shared state: replicates bans and list entries between all processes of a cluster.
--
-- In one call a process sends its changes and receives those it has not seen. Every ban carries the sequence
-- number of its last change; a process passes the last number it has seen and receives later changes.
-- Sequence numbers follow the clock, so that a store that lost recent changes never reuses a number.
-- The shared state has an id. A process that knows another id detects that the store lost its data and sends
-- its bans again.
--
-- KEYS   1 bans (field: rule and key, value: display key), 2 their sequence numbers, 3 their expiry (ms),
--        4 metadata (id, last sequence number, version of the lists, next expiry of a list entry),
--        5 lists (field: entry, value: expiry in ms, 0 for none)
-- ARGV   1 known id, 2 known sequence number, 3 known version of the lists, 4 id for a new shared state,
--        5 number of bans, then for each: field, TTL in ms (-1 lifts the ban), display key,
--        then the number of list entries, then for each: entry, TTL in ms (0: no expiry, -1: remove; the prefix
--        r marks an entry sent again after a data loss, which does not overwrite an existing one)
-- Returns id, sequence number, 1 if there are more changes, version of the lists,
--        { field, remaining ms or -1, display key, ... },
--        { entry, remaining ms or 0, ... } or false if the lists are unchanged

local DAY = 86400000
local MAX_BANS = 100000
local BATCH_SIZE = 1000

local kinds = { 'hash', 'zset', 'zset', 'hash', 'hash' }
for i = 1, 5 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= kinds[i] then redis.call('DEL', KEYS[i]) end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local bans, numbers, expiries, state, lists = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function delete_ban(field)
  redis.call('HDEL', bans, field)
  redis.call('ZREM', numbers, field)
  redis.call('ZREM', expiries, field)
end

for _, field in ipairs(redis.call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, BATCH_SIZE)) do delete_ban(field) end

local state_id, sequence, lists_version, next_expiry = unpack(redis.call('HMGET', state, 'name', 'number', 'lists', 'due'))
sequence = tonumber(sequence) or 0
-- A process that has seen a higher number knows of lost changes.
if not state_id or (ARGV[1] == state_id and tonumber(ARGV[2]) > sequence) then
  if not state_id then redis.call('DEL', bans, numbers, expiries) end
  -- Unique, whichever process creates it.
  state_id = ARGV[4] .. '-' .. time[1] .. '.' .. time[2]
  redis.call('HSET', state, 'name', state_id)
end

local arg = 6
for _ = 1, tonumber(ARGV[5]) do
  local field, ttl, display_key = ARGV[arg], tonumber(ARGV[arg + 1]), ARGV[arg + 2]
  arg = arg + 3
  local known_end = redis.call('ZSCORE', expiries, field)
  -- A lifted ban is stored for its remaining term, so that every process sees the change.
  local ends_at = now + ttl
  if ttl < 0 then
    ends_at = math.max(now + 60000, tonumber(known_end) or 0)
    display_key = ''
  end
  if ttl < 0 or not known_end or redis.call('HGET', bans, field) == '' or tonumber(known_end) < ends_at then
    sequence = math.max(sequence + 1, micros)
    redis.call('HSET', bans, field, display_key)
    redis.call('ZADD', numbers, string.format('%.0f', sequence), field)
    redis.call('ZADD', expiries, ends_at, field)
  end
end
redis.call('HSET', state, 'number', string.format('%.0f', sequence))
local excess = redis.call('ZCARD', expiries) - MAX_BANS
if excess > 0 then
  for _, field in ipairs(redis.call('ZRANGE', expiries, 0, excess - 1)) do delete_ban(field) end
end

local changed = false
for _ = 1, tonumber(ARGV[arg]) do
  local entry, is_repost, ttl = ARGV[arg + 1], ARGV[arg + 2]:match('^(r?)(.*)$')
  ttl = tonumber(ttl)
  arg = arg + 2
  if ttl < 0 then
    -- Kept for a minute: a process that has not detected a data loss yet would send it again.
    redis.call('HSET', lists, entry, string.format('x%.0f', now + 60000))
    changed = true
  elseif is_repost == '' or not redis.call('HGET', lists, entry) then
    redis.call('HSET', lists, entry, ttl == 0 and 0 or now + ttl)
    changed = true
  end
end
next_expiry = tonumber(next_expiry)
local active_entries = false
if changed or ARGV[1] ~= state_id or ARGV[3] ~= (lists_version or '0') or (next_expiry and next_expiry <= now) then
  local entries = redis.call('HGETALL', lists)
  active_entries, next_expiry = {}, nil
  for i = 1, #entries, 2 do
    local removed, ends_at = entries[i + 1]:match('^(x?)(.*)$')
    ends_at = tonumber(ends_at) or 1
    if ends_at ~= 0 and ends_at <= now then
      redis.call('HDEL', lists, entries[i])
      changed = changed or removed == ''
    elseif removed ~= '' then
      next_expiry = math.min(next_expiry or ends_at, ends_at)
    else
      active_entries[#active_entries + 1] = entries[i]
      active_entries[#active_entries + 1] = ends_at == 0 and 0 or ends_at - now
      if ends_at ~= 0 then next_expiry = math.min(next_expiry or ends_at, ends_at) end
    end
  end
  if next_expiry then redis.call('HSET', state, 'due', next_expiry) else redis.call('HDEL', state, 'due') end
  if changed then redis.call('HINCRBY', state, 'lists', 1) end
end
lists_version = redis.call('HGET', state, 'lists') or '0'

-- The metadata lives while any process syncs; lists live for a week after the last sync.
redis.call('PEXPIRE', state, DAY)
redis.call('PEXPIRE', lists, 7 * DAY)
local latest = redis.call('ZRANGE', expiries, -1, -1, 'WITHSCORES')
if latest[2] then
  for _, key in ipairs({ bans, numbers, expiries }) do redis.call('PEXPIREAT', key, latest[2]) end
end

local known_sequence = ARGV[1] == state_id and ARGV[2] or '0'
local changed_bans = redis.call('ZRANGEBYSCORE', numbers, '(' .. known_sequence, '+inf', 'WITHSCORES', 'LIMIT', 0, BATCH_SIZE)
local events = {}
for i = 1, #changed_bans, 2 do
  local field = changed_bans[i]
  local display_key = redis.call('HGET', bans, field)
  local remaining = -1
  if display_key ~= '' then remaining = (tonumber(redis.call('ZSCORE', expiries, field)) or now) - now end
  events[#events + 1] = field
  events[#events + 1] = remaining
  events[#events + 1] = display_key
end
local more = #changed_bans == 2 * BATCH_SIZE
if more then sequence = tonumber(changed_bans[#changed_bans]) end
local changed_entries = false
if ARGV[1] ~= state_id or ARGV[3] ~= lists_version then changed_entries = active_entries end
return { state_id, sequence, more and 1 or 0, lists_version, events, changed_entries }
