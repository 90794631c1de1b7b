-- The fleet's bulletin board: bans and lists that every process should know of.
--
-- A process posts its news and is told what it has not seen, in one call. Every ban has the number of
-- the change that made it what it is; whoever names the last number it has seen is told what came after.
-- Numbers follow the clock, so that a store that has lost the last changes gives none of them twice.
-- The board itself has a name: a process that knows another one knows that the store has lost what it
-- held, and posts its bans anew.
--
-- KEYS   1 bans (field: rule and key, value: name), 2 their numbers, 3 when they end (ms),
--        4 the board (name, last number, number of the lists, when the next entry of them ends), 5 lists (field: entry, value: end in ms, 0 for none)
-- ARGV   1 known board, 2 known number, 3 known number of the lists, 4 a name for a new board,
--        5 count of bans, then for each: field, ms it lasts (-1 lifts it), name,
--        then the count of list entries, then for each: entry, ms it lasts (0 for ever, -1 removes it; with an
--        r before, it is posted again after a loss, and what the board knows of it stands)
-- Answers board, number, whether there is more, number of the lists,
--        { field, ms left or -1, name, ... }, { entry, ms left or 0, ... } or false if the lists have not changed

local DAY = 86400000
local MOST = 100000
local AT_ONCE = 1000

local kinds = { 'hash', 'zset', 'zset', 'hash', 'hash' }
for i = 1, 5 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= kinds[i] then redis.call('DEL', KEYS[i]) end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local bans, numbers, ends, board, lists = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function forget(field)
  redis.call('HDEL', bans, field)
  redis.call('ZREM', numbers, field)
  redis.call('ZREM', ends, field)
end

for _, field in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, AT_ONCE)) do forget(field) end

local name, number, lists_number, due = unpack(redis.call('HMGET', board, 'name', 'number', 'lists', 'due'))
number = tonumber(number) or 0
-- Whoever has seen more changes than there are knows of some that are lost.
if not name or (ARGV[1] == name and tonumber(ARGV[2]) > number) then
  if not name then redis.call('DEL', bans, numbers, ends) end
  -- Another name than any before, whoever gives it.
  name = ARGV[4] .. '-' .. time[1] .. '.' .. time[2]
  redis.call('HSET', board, 'name', name)
end

local at = 6
for _ = 1, tonumber(ARGV[5]) do
  local field, lasts, readable = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  at = at + 3
  local known = redis.call('ZSCORE', ends, field)
  -- A lifted ban is remembered as long as it would have lasted, so that all hear of it.
  local until_ms = now + lasts
  if lasts < 0 then
    until_ms = math.max(now + 60000, tonumber(known) or 0)
    readable = ''
  end
  if lasts < 0 or not known or redis.call('HGET', bans, field) == '' or tonumber(known) < until_ms then
    number = math.max(number + 1, micros)
    redis.call('HSET', bans, field, readable)
    redis.call('ZADD', numbers, string.format('%.0f', number), field)
    redis.call('ZADD', ends, until_ms, field)
  end
end
redis.call('HSET', board, 'number', string.format('%.0f', number))
local over = redis.call('ZCARD', ends) - MOST
if over > 0 then
  for _, field in ipairs(redis.call('ZRANGE', ends, 0, over - 1)) do forget(field) end
end

local changed = false
for _ = 1, tonumber(ARGV[at]) do
  local entry, again, lasts = ARGV[at + 1], ARGV[at + 2]:match('^(r?)(.*)$')
  lasts = tonumber(lasts)
  at = at + 2
  if lasts < 0 then
    -- Remembered for a while: a process that has not noticed a loss yet would post it again.
    redis.call('HSET', lists, entry, string.format('x%.0f', now + 60000))
    changed = true
  elseif again == '' or not redis.call('HGET', lists, entry) then
    redis.call('HSET', lists, entry, lasts == 0 and 0 or now + lasts)
    changed = true
  end
end
due = tonumber(due)
local standing = false
if changed or ARGV[1] ~= name or ARGV[3] ~= (lists_number or '0') or (due and due <= now) then
  local entries = redis.call('HGETALL', lists)
  standing, due = {}, nil
  for i = 1, #entries, 2 do
    local removed, ends_at = entries[i + 1]:match('^(x?)(.*)$')
    ends_at = tonumber(ends_at) or 1
    if ends_at ~= 0 and ends_at <= now then
      redis.call('HDEL', lists, entries[i])
      changed = changed or removed == ''
    elseif removed ~= '' then
      due = math.min(due or ends_at, ends_at)
    else
      standing[#standing + 1] = entries[i]
      standing[#standing + 1] = ends_at == 0 and 0 or ends_at - now
      if ends_at ~= 0 then due = math.min(due or ends_at, ends_at) end
    end
  end
  if due then redis.call('HSET', board, 'due', due) else redis.call('HDEL', board, 'due') end
  if changed then redis.call('HINCRBY', board, 'lists', 1) end
end
lists_number = redis.call('HGET', board, 'lists') or '0'

-- As long as one process looks, the board stays; lists stay for a week after the last.
redis.call('PEXPIRE', board, DAY)
redis.call('PEXPIRE', lists, 7 * DAY)
local last = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')
if last[2] then
  for _, key in ipairs({ bans, numbers, ends }) do redis.call('PEXPIREAT', key, last[2]) end
end

local known = ARGV[1] == name and ARGV[2] or '0'
local found = redis.call('ZRANGEBYSCORE', numbers, '(' .. known, '+inf', 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
local news = {}
for i = 1, #found, 2 do
  local field = found[i]
  local readable = redis.call('HGET', bans, field)
  local left = -1
  if readable ~= '' then left = (tonumber(redis.call('ZSCORE', ends, field)) or now) - now end
  news[#news + 1] = field
  news[#news + 1] = left
  news[#news + 1] = readable
end
local more = #found == 2 * AT_ONCE
if more then number = tonumber(found[#found]) end
local told = false
if ARGV[1] ~= name or ARGV[3] ~= lists_number then told = standing end
return { name, number, more and 1 or 0, lists_number, news, told }
