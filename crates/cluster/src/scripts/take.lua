-- Decides asks: each takes from all limits of all its units, or from none.
--
-- KEYS     the units' keys, each once, then the second keys of logs and permits
-- ARGV[1]  the moment in microseconds since 2026, or empty: then it is the store's own
-- ARGV[2]  how many units' keys there are, then the units: key, set of limits (an index into ARGV, plus
--          2^31 if the next unit belongs to the same ask), cost; where the set has second keys, the first
--          of them; where it has permits, their id
-- ARGV[n]  a set of limits
-- Answers  the moment, how many foreign values were replaced, then per unit: 8 * limit + check, what
--          remains, nanoseconds to full, and where the check has one the wait in nanoseconds
local KEYS, ARGV, call, read, write, byte = KEYS, ARGV, redis.call, struct.unpack, struct.pack, string.byte
--!include moment
local units = ARGV[2]
local count, place = read('<I4', units)
--!include values
local healed = 0
local answer, filled = { now, 0 }, 2
local decide, flush

-- The commonest ask by far: one token bucket. Its numbers stay below 2^53, so the debt is one number. Four
-- places per key: arrival time in microseconds and ticks, when somebody last came, whether it changed.
local buckets = { false, false, false, false }
local known, interval, burst, tolerance
local size = #units
while place <= size do
  local key, set, cost
  key, set, cost, place = read('<I4I4I7', units, place)
  if set ~= known then
    known = nil
    local text = ARGV[set]
    if text and byte(text) == 1 then
      local _
      known, _, interval, burst, tolerance = set, read('<Bddd', text)
    end
  end
  if known then
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
          healed = healed + 1
        end
      end
      buckets[at - 3], buckets[at - 2], buckets[at - 1], buckets[at] = arrival, fraction, last, false
    end
    local ahead, owed = arrival - now, 0
    if ahead < 0 then
      ahead, fraction = 0, 0
    else
      owed = ahead * 16000 + fraction
    end
    local check, wait, reset = 0, 0, 0
    if cost > burst then
      check = 4
    elseif cost > 0 then
      local span = cost * interval
      local room = tolerance - span
      if owed <= room then
        owed = owed + span
        fraction = owed % 16000
        ahead = (owed - fraction) / 16000
        buckets[at - 3], buckets[at - 2], buckets[at] = now + ahead, fraction, true
        if buckets[at - 1] < now then buckets[at - 1] = now end
      else
        check = 2
        local early = fraction - room
        local over = early % 16
        wait = ahead * 1000 + (early - over) / 16
        if over > 0 then wait = wait + 1 end
      end
    end
    local over = fraction % 16
    reset = ahead * 1000 + (fraction - over) / 16
    if over > 0 then reset = reset + 1 end
    local left = tolerance - owed
    if left < 0 then left = 0 end
    answer[filled + 1] = check
    answer[filled + 2] = (left - left % interval) / interval
    answer[filled + 3] = reset
    filled = filled + 3
    if check == 2 then
      filled = filled + 1
      answer[filled] = wait
    end
  else
    if not decide then
      --!include states
      decide = general()
    end
    place = decide(key, set, cost, place)
  end
end

for key = 1, count do
  local at = key * 4
  if buckets[at] then
    local arrival, fraction = buckets[at - 3], buckets[at - 2]
    local over = arrival % 1000
    local gone = (arrival - over) / 1000 + 1767225600000
    if over > 0 or fraction > 0 then gone = gone + 1 end
    -- Scripts write numbers slowly and texts quickly.
    gone = string.format('%d', gone)
    local value = write('<BI7I2I7', 245, arrival, fraction, buckets[at - 1])
    if values[key] then
      call('SET', KEYS[key], value, 'PXAT', gone)
    elseif not call('SET', KEYS[key], value, 'PXAT', gone, 'NX') then
      call('SET', KEYS[key], value, 'PXAT', gone)
      healed = healed + 1
    end
  end
end
if decide then flush() end
answer[2] = healed
return answer
