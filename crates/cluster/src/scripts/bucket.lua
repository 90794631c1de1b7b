-- Token bucket, bandwidth and leaky bucket.
-- Numbers: per token microseconds and ticks (a sixteenth of a nanosecond), the burst, ticks per token as
-- near as may be, from empty to full microseconds and ticks, 1 for a line.
-- State: the arrival time in microseconds and ticks, and when somebody last came.
algorithms[1] = function()
  local function span(numbers, cost)
    local ticks = cost * numbers[2]
    local over = ticks % 16000
    return cost * numbers[1] + (ticks - over) / 16000, over
  end

  local function owed(state, now)
    local ahead = state[1] - now
    if ahead < 0 then return 0, 0 end
    return ahead, state[2]
  end

  -- Moves the arrival time on from `from`. What would take longer than 35 years takes 35 years.
  local function charge(numbers, state, from, cost)
    local arrival, fraction = state[1], state[2]
    if arrival < from then arrival, fraction = from, 0 end
    local micros, ticks = 1125899906842624, 0
    if cost * numbers[2] <= 4503599627370496 and cost * numbers[1] <= micros then micros, ticks = span(numbers, cost) end
    arrival, fraction = arrival + micros, fraction + ticks
    if fraction >= 16000 then arrival, fraction = arrival + 1, fraction - 16000 end
    if arrival > 4503599627370496 then arrival = 4503599627370496 end
    state[1], state[2] = arrival, fraction
  end

  local function give_back(numbers, state, cost)
    local micros, ticks = span(numbers, cost)
    local arrival, fraction = state[1] - micros, state[2] - ticks
    if fraction < 0 then arrival, fraction = arrival - 1, fraction + 16000 end
    if arrival < 0 then arrival, fraction = 0, 0 end
    state[1], state[2] = arrival, fraction
  end

  return {
    layout = function() return '<I7I2I7', 16 end,
    fresh = function() return { 0, 0, 0 } end,
    check = function(numbers, state, now, cost)
      local burst = numbers[3]
      if cost > burst then return 4, 0 end
      if cost == 0 then return 0, 0 end
      local ahead, fraction = owed(state, now)
      local room, ticks = span(numbers, burst - cost)
      if ahead > room or (ahead == room and fraction > ticks) then
        return 2, (ahead - room) * 1000 + sixteenth(fraction - ticks)
      end
      if numbers[7] == 1 and (ahead > 0 or fraction > 0) then return 1, ahead * 1000 + sixteenth(fraction) end
      return 0, 0
    end,
    commit = function(numbers, state, now, cost)
      charge(numbers, state, now, cost)
      if state[3] < now then state[3] = now end
    end,
    status = function(numbers, state, now)
      local ahead, fraction = owed(state, now)
      local left, ticks = numbers[5] - ahead, numbers[6] - fraction
      if ticks < 0 then left, ticks = left - 1, ticks + 16000 end
      local remaining = 0
      if left >= 0 then
        remaining = floor((left * 16000 + ticks) / numbers[4])
        if left >= 274877906944 then
          -- The division was not exact: at most one off.
          local micros, over = span(numbers, remaining)
          if micros > left or (micros == left and over > ticks) then
            remaining = remaining - 1
          else
            micros, over = span(numbers, remaining + 1)
            if micros < left or (micros == left and over <= ticks) then remaining = remaining + 1 end
          end
        end
      end
      return remaining, ahead * 1000 + sixteenth(fraction)
    end,
    full_at = function(_, state)
      if state[2] > 0 then return state[1] + 1 end
      return state[1]
    end,
    settle = function(numbers, state, at, taken, actual, now)
      if actual > taken then
        -- A line may have been empty long before.
        charge(numbers, state, numbers[7] == 1 and at or now, actual - taken)
        if state[3] < now then state[3] = now end
        return true
      end
      -- Tokens come back if nobody came later than they were taken; a place in line only if nobody else
      -- was in it.
      local micros, ticks = span(numbers, taken)
      local alone = state[1] == at + micros and state[2] == ticks
      if actual == taken or state[3] ~= at or (numbers[7] == 1 and not alone) then return false end
      give_back(numbers, state, taken - actual)
      return true
    end,
    refund = function(numbers, state, _, amount)
      -- Others stand in line behind it, and have been told when to go.
      if numbers[7] == 1 then return false end
      give_back(numbers, state, amount)
      return true
    end,
  }
end
