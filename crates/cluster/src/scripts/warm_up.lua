-- Warm-up.
-- Numbers: the stable gap, how much longer the cold one is (both in nanoseconds), the warmth at which the
-- stable gap is reached, the highest warmth, the time to warm up in nanoseconds. Warmth is in 2^20ths of
-- a permit.
-- State: when the next caller may come in microseconds and nanoseconds, the warmth, when somebody last came.
algorithms[6] = function()
  local function up(x, y)
    local over = x % y
    return (x - over) / y + (over > 0 and 1 or 0)
  end

  -- Warmth that so many idle nanoseconds take away.
  local function cooled(numbers, idle)
    if idle >= numbers[5] then return numbers[4] end
    return portion_up(idle, numbers[4], numbers[5])
  end

  local function less(warmth, by) return warmth > by and warmth - by or 0 end

  local function warmth_at(numbers, state, now)
    local idle = now - state[1]
    if idle < 0 then return state[3] end
    if idle > numbers[5] / 1000 + 1 then return 0 end
    idle = idle * 1000 - state[2]
    return less(state[3], cooled(numbers, idle > 0 and idle or 0))
  end

  -- Nanoseconds that `cost` permits take from this warmth on: the stable gap for each, and the area of
  -- the slope above it, which is u * v * longer / (2 * slope_ends * 2^20), rounded up once.
  local function area(numbers, warmth, cost)
    local stable, longer, slope_ends = numbers[1], numbers[2], numbers[3]
    local nanos = stable * cost
    local u = less(slope_ends, warmth)
    if u > 0 then
      local v = u
      if cost * 1048576 < u then
        v = 2 * u - cost * 1048576
        u = cost * 1048576
      end
      local whole, part = portion(u, v, 2 * slope_ends)
      local high, rest = portion(whole, longer, 1048576)
      local more, over = portion(part, longer, 2 * slope_ends)
      nanos = nanos + high + up(rest + more + (over > 0 and 1 or 0), 1048576)
    end
    return nanos
  end

  local function warmed(numbers, warmth, cost)
    local warmer = warmth + cost * 1048576
    return warmer < numbers[4] and warmer or numbers[4]
  end

  -- Moves the moment on by nanoseconds; what would take longer than 35 years takes 35 years.
  local function delay(micros, nanos, by)
    if by > 9007199254740000 then
      micros = micros + math.min(floor(by / 1000) + 1000000, 1125899906842624)
    else
      nanos = nanos + by
      local over = nanos % 1000
      micros, nanos = micros + (nanos - over) / 1000, over
    end
    return math.min(micros, 4503599627370496), nanos
  end

  local function take(numbers, state, now, cost)
    local warmth = warmth_at(numbers, state, now)
    local free, nanos = state[1], state[2]
    if free < now then free, nanos = now, 0 end
    state[1], state[2] = delay(free, nanos, area(numbers, warmth, cost))
    state[3] = warmed(numbers, warmth, cost)
  end

  local function wait(state, now)
    local ahead = (state[1] - now) * 1000 + state[2]
    return ahead > 0 and ahead or 0
  end

  return {
    layout = function() return '<I7I2I7I7', 23 end,
    fresh = function() return { 0, 0, 0, 0 } end,
    check = function(_, state, now, cost)
      local ahead = wait(state, now)
      if ahead > 0 and cost > 0 then return 2, ahead end
      return 0, 0
    end,
    commit = function(numbers, state, now, cost)
      take(numbers, state, now, cost)
      state[4] = now
    end,
    status = function(_, state, now)
      local ahead = wait(state, now)
      return ahead == 0 and 1 or 0, ahead
    end,
    full_at = function(numbers, state)
      local cooling = portion_up(state[3], numbers[5], numbers[4])
      return state[1] + up(state[2] + cooling, 1000)
    end,
    -- Both ways it may not end up warmer than if `actual` had been taken at once: then it would have been
    -- free earlier, and would have been cooling since. One nanosecond for rounding.
    settle = function(numbers, state, at, taken, actual, now)
      local free, nanos, warmth = state[1], state[2], state[3]
      if actual > taken then
        local extra = actual - taken
        local then_free, then_nanos = delay(free, nanos, area(numbers, warmth, extra))
        take(numbers, state, now, extra)
        local late = (state[1] - then_free) * 1000 + state[2] - then_nanos + 1
        state[3] = less(warmed(numbers, warmth, extra), cooled(numbers, late > 1 and late or 1))
        -- Nobody gives back to what was charged since.
        state[4] = 0
        return true
      end
      if actual == taken or at == 0 or state[4] ~= at then return false end
      -- At the stable gap, the shortest there is: never more than was charged.
      local unused = (taken - actual) * numbers[1]
      if unused > 4503599627370496 then return false end
      local coldest = less(warmth, taken * 1048576)
      local charged = area(numbers, coldest, taken) - area(numbers, coldest, actual)
      local late = less(charged, unused) + 1
      local over = (nanos - unused) % 1000
      free, nanos = free + (nanos - unused - over) / 1000, over
      if free < 0 then free, nanos = 0, 0 end
      state[1], state[2] = free, nanos
      state[3] = less(warmed(numbers, coldest, actual), cooled(numbers, late))
      return true
    end,
  }
end
