-- Interpolated window.
-- Numbers: the limit, the window, and units per microsecond in which overlaps are told apart.
-- State: the current window's number plus one, the count of the one before, the count of the current one.
algorithms[4] = function()
  local function counts(numbers, state, now)
    local window = (now - now % numbers[2]) / numbers[2]
    if window < state[1] - 1 then window = state[1] - 1 end
    local age = window + 1 - state[1]
    if age == 0 then return window, state[2], state[3] end
    if age == 1 then return window, state[3], 0 end
    return window, 0, 0
  end

  local function overlap(numbers, window, now)
    local into = now - window * numbers[2]
    if into < 0 then return numbers[2] end
    if into > numbers[2] then return 0 end
    return numbers[2] - into
  end

  -- The longest overlap at which `count` of the window before still leaves `room`.
  local function longest(numbers, count, room)
    local whole = numbers[2] * numbers[3]
    if count <= room then return whole end
    return (portion(room, whole, count))
  end

  local function commit(numbers, state, now, cost)
    local window, previous, current = counts(numbers, state, now)
    current = current + cost
    if current > 9007199254740991 then current = 9007199254740991 end
    state[1], state[2], state[3] = window + 1, previous, current
  end

  local function full_at(numbers, state)
    if state[1] == 0 then return 0 end
    if state[3] == 0 then return state[1] * numbers[2] end
    return (state[1] + 1) * numbers[2]
  end

  return {
    layout = function() return '<I7I7I7', 21 end,
    fresh = function() return { 0, 0, 0 } end,
    check = function(numbers, state, now, cost)
      local limit, length, scale = numbers[1], numbers[2], numbers[3]
      if cost > limit then return 4, 0 end
      if cost == 0 then return 0, 0 end
      local window, previous, current = counts(numbers, state, now)
      local room, wait = limit - cost - current, nil
      if room >= 0 then
        local most = longest(numbers, previous, room)
        if overlap(numbers, window, now) * scale <= most then return 0, 0 end
        wait = length * scale - most
      else
        -- Too much already in this window: it has to become the one before first.
        wait = 2 * length * scale - longest(numbers, current, limit - cost)
      end
      return 2, (window * length - now) * 1000 + wait * (1000 / scale)
    end,
    commit = commit,
    status = function(numbers, state, now)
      local window, previous, current = counts(numbers, state, now)
      local used = portion_up(previous, overlap(numbers, window, now), numbers[2]) + current
      local left = numbers[1] - used
      local reset = 0
      if used > 0 then reset = (full_at(numbers, state) - now) * 1000 end
      return left > 0 and left or 0, reset > 0 and reset or 0
    end,
    full_at = full_at,
    settle = function(numbers, state, at, taken, actual, now)
      if actual == taken then return false end
      local age = state[1] - (at - at % numbers[2]) / numbers[2]
      if age <= 0 then
        -- Its window was never written: nothing was taken at first.
        if actual < taken then return false end
        commit(numbers, state, now, actual - taken)
        return true
      end
      if age > 2 then return false end
      local place = age == 1 and 3 or 2
      local count = state[place] - taken
      count = (count > 0 and count or 0) + actual
      state[place] = count < 9007199254740991 and count or 9007199254740991
      return true
    end,
    -- What was taken in this window goes first: of the one before, only a part counts.
    refund = function(numbers, state, now, amount)
      local window, previous, current = counts(numbers, state, now)
      if previous == 0 and current == 0 then return false end
      current = current - amount
      if current < 0 then previous, current = previous + current, 0 end
      state[1], state[2], state[3] = window + 1, previous > 0 and previous or 0, current
      return true
    end,
  }
end
