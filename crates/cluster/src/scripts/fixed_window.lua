-- Fixed window.
-- Numbers: the limit, the window, how far into a window 2026 begins (-1: windows begin with first use).
-- State: the end of the window, and what was taken in it.
algorithms[2] = function()
  local function end_of(numbers, at)
    if numbers[3] < 0 then return at + numbers[2] end
    return at + numbers[2] - (at + numbers[3]) % numbers[2]
  end

  local function current(numbers, state, now)
    if now < state[1] then return state[1], state[2] end
    return end_of(numbers, now), 0
  end

  local function put(state, ends, used)
    if used > 9007199254740991 then used = 9007199254740991 end
    state[1], state[2] = ends, used
  end

  return {
    layout = function() return '<I7I7', 14 end,
    fresh = function() return { 0, 0 } end,
    check = function(numbers, state, now, cost)
      if cost > numbers[1] then return 4, 0 end
      local ends, used = current(numbers, state, now)
      if cost == 0 or cost <= numbers[1] - used then return 0, 0 end
      return 2, (ends - now) * 1000
    end,
    commit = function(numbers, state, now, cost)
      local ends, used = current(numbers, state, now)
      put(state, ends, used + cost)
    end,
    status = function(numbers, state, now)
      local ends, used = current(numbers, state, now)
      local left = numbers[1] - used
      return left > 0 and left or 0, used > 0 and (ends - now) * 1000 or 0
    end,
    full_at = function(_, state) return state[1] end,
    settle = function(numbers, state, at, taken, actual, now)
      if actual == taken then return false end
      local mark = end_of(numbers, at)
      if numbers[3] < 0 and at < state[1] and at >= state[1] - numbers[2] then mark = state[1] end
      if state[1] == mark then
        local used = state[2] - taken
        put(state, mark, (used > 0 and used or 0) + actual)
        return true
      end
      if actual < taken or now >= mark then return false end
      local ends, used = current(numbers, state, now)
      put(state, ends, used + actual - taken)
      return true
    end,
    refund = function(_, state, now, amount)
      if now >= state[1] then return false end
      local used = state[2] - amount
      state[2] = used > 0 and used or 0
      return true
    end,
  }
end
