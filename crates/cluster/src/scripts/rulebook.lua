-- The fleet's rulebook: texts of rules, each with its number, and who wrote it, when and why.
--
-- All of it is one hash, so that nothing can be lost or moved without the rest. It has no expiry: rules are
-- not counts that fill up again, and a fleet that was down for a month should find them.
-- Numbers only grow. Who calls says the highest it has ever seen: a store that has lost the last versions
-- gives none of their numbers to another text.
--
-- KEYS   1 the book. Fields: number (of the current version), kept (all numbers, the oldest first),
--        v and a number (when in microseconds, bytes, author, comment; a line each), t and a number (the text)
-- ARGV   1 what is wanted:
--        number                                                -> { 'number', number or 0 }
--        versions                                              -> { 'versions', number, lines, number, lines, ... }
--        rules, number (0: the current one)                    -> { 'rules', number, lines, text } or { 'none' }
--        publish, most versions, most bytes, highest number seen, number it is based on (-1: any), author,
--          comment, text                                       -> { 'published', number } or { 'overtaken', number }
--        put_back, most versions, most bytes, number, lines, text
--                                                              -> { 'number', number that is current then }
--        Numbers are told as text. { 'foreign', reason }: it is no book, and nothing was done.

local book, wanted = KEYS[1], ARGV[1]
local kind = redis.call('TYPE', book).ok
if kind ~= 'none' and kind ~= 'hash' then return { 'foreign', 'it is a ' .. kind .. ', not a hash' } end

-- Larger ones would not be told apart.
local MOST_DIGITS = 15
local function whole(text)
  if text and #text <= MOST_DIGITS and text:match('^[1-9]%d*$') then return tonumber(text) end
end
local function shown(number) return string.format('%.0f', number) end

local current, kept = 0, {}
if kind == 'hash' then
  local found = redis.call('HMGET', book, 'number', 'kept')
  current = whole(found[1])
  if not current or not found[2] or #found[2] > 65536 then return { 'foreign', 'it has no current number' } end
  if wanted ~= 'number' then
    for number in found[2]:gmatch('%S+') do
      if not whole(number) then return { 'foreign', 'it lists what is no number' } end
      kept[#kept + 1] = number
    end
    if kept[#kept] ~= found[1] then return { 'foreign', 'its current version is not the last it lists' } end
  end
end

local function lines_of(numbers)
  if #numbers == 0 then return {} end
  local fields = {}
  for i, number in ipairs(numbers) do fields[i] = 'v' .. number end
  return redis.call('HMGET', book, unpack(fields))
end

-- Adds a version after all others, then lets go of the oldest. In this order: a server without memory
-- refuses a script only what adds, and only before it has written anything.
local function add(number, lines, text, most, most_bytes)
  number = shown(number)
  local all, known = { number }, lines_of(kept)
  local bytes, gone = #text, {}
  for i = #kept, 1, -1 do
    bytes = bytes + (tonumber(known[i] and known[i]:match('^%d+\n(%d+)\n')) or 0)
    if #gone == 0 and #all < most and bytes <= most_bytes then
      table.insert(all, 1, kept[i])
    else
      gone[#gone + 1] = 'v' .. kept[i]
      gone[#gone + 1] = 't' .. kept[i]
    end
  end
  redis.call('HSET', book, 't' .. number, text, 'v' .. number, lines, 'number', number, 'kept', table.concat(all, ' '))
  if #gone > 0 then redis.call('HDEL', book, unpack(gone)) end
end

if wanted == 'number' then
  return { 'number', shown(current) }
elseif wanted == 'versions' then
  local answer, known = { 'versions' }, lines_of(kept)
  for i = #kept, 1, -1 do
    if not known[i] then return { 'foreign', 'nothing is known of version ' .. kept[i] } end
    answer[#answer + 1] = kept[i]
    answer[#answer + 1] = known[i]
  end
  return answer
elseif wanted == 'rules' then
  local number = ARGV[2]
  if number == '0' then number = shown(current) end
  local listed = false
  for _, other in ipairs(kept) do listed = listed or other == number end
  if not listed then return { 'none' } end
  local found = redis.call('HMGET', book, 'v' .. number, 't' .. number)
  if not found[1] or not found[2] then return { 'foreign', 'the text of version ' .. number .. ' is gone' } end
  return { 'rules', number, found[1], found[2] }
elseif wanted == 'publish' then
  local based_on = tonumber(ARGV[5])
  if based_on >= 0 and based_on ~= current then return { 'overtaken', shown(current) } end
  local number = math.max(current, tonumber(ARGV[4])) + 1
  if not whole(shown(number)) then return { 'foreign', 'no number comes after its last one' } end
  local time, text = redis.call('TIME'), ARGV[8]
  local at = shown(time[1] * 1000000 + time[2])
  add(number, table.concat({ at, shown(#text), ARGV[6], ARGV[7] }, '\n'), text, tonumber(ARGV[2]), tonumber(ARGV[3]))
  return { 'published', shown(number) }
elseif wanted == 'put_back' then
  local number = tonumber(ARGV[4])
  if number > current then
    add(number, ARGV[5], ARGV[6], tonumber(ARGV[2]), tonumber(ARGV[3]))
    current = number
  end
  return { 'number', shown(current) }
end
return redis.error_reply('ERR nothing is called ' .. tostring(wanted))
