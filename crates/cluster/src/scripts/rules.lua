-- Rule repository: versioned rule texts with author, time and comment.
--
-- All data is in one hash, so that it is lost or migrated only as a unit. It has no expiry: unlike counters,
-- rules must survive a month without any process.
-- Version numbers only grow. The caller passes the highest number it has seen, so that a store that lost the
-- latest versions never reuses their numbers.
--
-- KEYS   1 repository. Fields: number (current version), kept (all retained numbers, oldest first),
--        v<number> (time in microseconds, bytes, author, comment; one line each), t<number> (rule text)
-- ARGV   1 operation, then its arguments:
--        number                                                -> { 'number', number or 0 }
--        versions                                              -> { 'versions', number, metadata, ... }
--        rules, number (0: current)                            -> { 'rules', number, metadata, text } or { 'none' }
--        publish, max versions, max bytes, highest number seen, base version (-1: any), author, comment, text
--                                                              -> { 'published', number } or { 'conflict', number }
--        restore, max versions, max bytes, number, metadata, text
--                                                              -> { 'number', current number afterwards }
--        Numbers are returned as text. { 'foreign', reason }: the key holds other data; nothing was changed.

local repository, operation = KEYS[1], ARGV[1]
local kind = redis.call('TYPE', repository).ok
if kind ~= 'none' and kind ~= 'hash' then return { 'foreign', 'it is a ' .. kind .. ', not a hash' } end

-- Larger numbers are not exact in Lua.
local MAX_DIGITS = 15
local function parse_number(text)
  if text and #text <= MAX_DIGITS and text:match('^[1-9]%d*$') then return tonumber(text) end
end
local function format_number(number) return string.format('%.0f', number) end

local current, retained = 0, {}
if kind == 'hash' then
  local values = redis.call('HMGET', repository, 'number', 'kept')
  current = parse_number(values[1])
  if not current or not values[2] or #values[2] > 65536 then return { 'foreign', 'it has no valid current version' } end
  if operation ~= 'number' then
    for number in values[2]:gmatch('%S+') do
      if not parse_number(number) then return { 'foreign', 'it lists an invalid version number' } end
      retained[#retained + 1] = number
    end
    if retained[#retained] ~= values[1] then return { 'foreign', 'its current version is not the last one listed' } end
  end
end

local function read_metadata(numbers)
  if #numbers == 0 then return {} end
  local fields = {}
  for i, number in ipairs(numbers) do fields[i] = 'v' .. number end
  return redis.call('HMGET', repository, unpack(fields))
end

-- Adds a version, then drops the oldest ones. In this order, because a server out of memory rejects only
-- commands that add data, and only before the script has written anything.
local function add(number, metadata, text, max_versions, max_bytes)
  number = format_number(number)
  local numbers, stored = { number }, read_metadata(retained)
  local bytes, dropped = #text, {}
  for i = #retained, 1, -1 do
    bytes = bytes + (tonumber(stored[i] and stored[i]:match('^%d+\n(%d+)\n')) or 0)
    if #dropped == 0 and #numbers < max_versions and bytes <= max_bytes then
      table.insert(numbers, 1, retained[i])
    else
      dropped[#dropped + 1] = 'v' .. retained[i]
      dropped[#dropped + 1] = 't' .. retained[i]
    end
  end
  redis.call('HSET', repository, 't' .. number, text, 'v' .. number, metadata, 'number', number, 'kept', table.concat(numbers, ' '))
  if #dropped > 0 then redis.call('HDEL', repository, unpack(dropped)) end
end

if operation == 'number' then
  return { 'number', format_number(current) }
elseif operation == 'versions' then
  local reply, stored = { 'versions' }, read_metadata(retained)
  for i = #retained, 1, -1 do
    if not stored[i] then return { 'foreign', 'no metadata of version ' .. retained[i] } end
    reply[#reply + 1] = retained[i]
    reply[#reply + 1] = stored[i]
  end
  return reply
elseif operation == 'rules' then
  local number = ARGV[2]
  if number == '0' then number = format_number(current) end
  local is_retained = false
  for _, other in ipairs(retained) do is_retained = is_retained or other == number end
  if not is_retained then return { 'none' } end
  local values = redis.call('HMGET', repository, 'v' .. number, 't' .. number)
  if not values[1] or not values[2] then return { 'foreign', 'the text of version ' .. number .. ' is missing' } end
  return { 'rules', number, values[1], values[2] }
elseif operation == 'publish' then
  local based_on = tonumber(ARGV[5])
  if based_on >= 0 and based_on ~= current then return { 'conflict', format_number(current) } end
  local number = math.max(current, tonumber(ARGV[4])) + 1
  if not parse_number(format_number(number)) then return { 'foreign', 'the version numbers are exhausted' } end
  local time, text = redis.call('TIME'), ARGV[8]
  local created_at = format_number(time[1] * 1000000 + time[2])
  add(number, table.concat({ created_at, format_number(#text), ARGV[6], ARGV[7] }, '\n'), text, tonumber(ARGV[2]), tonumber(ARGV[3]))
  return { 'published', format_number(number) }
elseif operation == 'restore' then
  local number = tonumber(ARGV[4])
  if number > current then
    add(number, ARGV[5], ARGV[6], tonumber(ARGV[2]), tonumber(ARGV[3]))
    current = number
  end
  return { 'number', format_number(current) }
end
return redis.error_reply('ERR unknown operation ' .. tostring(operation))
