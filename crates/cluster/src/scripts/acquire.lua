-- Decides requests: each is charged to all limits of all its checks, or to none.
--
-- KEYS     the keys of the checks, each once, then the secondary keys of logs and permits
-- ARGV[1]  time in microseconds since 2026, or empty for the server's clock
-- ARGV[2]  number of check keys, then the checks: key, limit set (an index into ARGV, plus 2^31 if the next
--          check belongs to the same request), cost; if the set has secondary keys, the index of the first; if
--          it has permits, their id
-- ARGV[n]  a limit set
-- Returns  time, number of foreign values replaced, then per check: 8 * limit + result, remaining, nanoseconds
--          until full, and the wait in nanoseconds if the result has one
local KEYS, ARGV, call, read, write, byte = KEYS, ARGV, redis.call, struct.unpack, struct.pack, string.byte
--!include clock
local checks = ARGV[2]
local count, offset = read('<I4', checks)
--!include values
local replaced = 0
local reply, reply_len = { now, 0 }, 2
local decide, flush

-- Fast path for the most common request: one token bucket. Its numbers stay below 2^53, so the debt is one
-- number. Four slots per key: arrival time in microseconds and ticks, time of the last charge, changed flag.
local buckets = { false, false, false, false }
local bucket_set, interval, burst, tolerance
local size = #checks
while offset <= size do
  local key, set, cost
  key, set, cost, offset = read('<I4I4I7', checks, offset)
  if set ~= bucket_set then
    bucket_set = nil
    local text = ARGV[set]
    if text and byte(text) == 1 then
      local _
      bucket_set, _, interval, burst, tolerance = set, read('<Bddd', text)
    end
  end
  if bucket_set then
    local at = key * 4
    local arrival, fraction = buckets[at - 3], buckets[at - 2]
    if not arrival then
      local value, last = values[key], 0
      arrival, fraction = 0, 0
      if value then
        if #value == 17 and byte(value) == 245 then
          local _
          _, arrival, fraction, last = read('<BI7I2I7', value)
        else
          call('DEL', KEYS[key])
          values[key] = false
          replaced = replaced + 1
        end
      end
      buckets[at - 3], buckets[at - 2], buckets[at - 1], buckets[at] = arrival, fraction, last, false
    end
    local ahead, debt = arrival - now, 0
    if ahead < 0 then
      ahead, fraction = 0, 0
    else
      debt = ahead * 16000 + fraction
    end
    local check, wait, reset = 0, 0, 0
    if cost > burst then
      check = 4
    elseif cost > 0 then
      local span = cost * interval
      local headroom = tolerance - span
      if debt <= headroom then
        debt = debt + span
        fraction = debt % 16000
        ahead = (debt - fraction) / 16000
        buckets[at - 3], buckets[at - 2], buckets[at] = now + ahead, fraction, true
        if buckets[at - 1] < now then buckets[at - 1] = now end
      else
        check = 2
        local excess = fraction - headroom
        local remainder = excess % 16
        wait = ahead * 1000 + (excess - remainder) / 16
        if remainder > 0 then wait = wait + 1 end
      end
    end
    local remainder = fraction % 16
    reset = ahead * 1000 + (fraction - remainder) / 16
    if remainder > 0 then reset = reset + 1 end
    local available = tolerance - debt
    if available < 0 then available = 0 end
    reply[reply_len + 1] = check
    reply[reply_len + 2] = (available - available % interval) / interval
    reply[reply_len + 3] = reset
    reply_len = reply_len + 3
    if check == 2 then
      reply_len = reply_len + 1
      reply[reply_len] = wait
    end
  else
    if not decide then
      --!include states
      decide = general()
    end
    offset = decide(key, set, cost, offset)
  end
end

for key = 1, count do
  local at = key * 4
  if buckets[at] then
    local arrival, fraction = buckets[at - 3], buckets[at - 2]
    local remainder = arrival % 1000
    local expire_at_ms = (arrival - remainder) / 1000 + 1767225600000
    if remainder > 0 or fraction > 0 then expire_at_ms = expire_at_ms + 1 end
    -- Formatting here is faster than the conversion by redis.call.
    expire_at_ms = string.format('%d', expire_at_ms)
    local value = write('<BI7I2I7', 245, arrival, fraction, buckets[at - 1])
    if values[key] then
      call('SET', KEYS[key], value, 'PXAT', expire_at_ms)
    elseif not call('SET', KEYS[key], value, 'PXAT', expire_at_ms, 'NX') then
      call('SET', KEYS[key], value, 'PXAT', expire_at_ms)
      replaced = replaced + 1
    end
  end
end
if decide then flush() end
reply[2] = replaced
return reply
