-- Warm-up.
-- Parameters: stable gap and difference to the cold gap (both in nanoseconds), warmth at which the stable gap
-- is reached, maximum warmth, warm-up time in nanoseconds. Warmth is measured in 2^-20 permits.
-- State: time of the next admission in microseconds and nanoseconds, warmth, time of the last charge.
algorithms[NUMBER] = function()
  local function div_up(x, y)
    local remainder = x % y
    return (x - remainder) / y + (remainder > 0 and 1 or 0)
  end

  -- Warmth lost in this many idle nanoseconds.
  local function cooled(params, idle)
    if idle >= params[5] then return params[4] end
    return mul_div_up(idle, params[4], params[5])
  end

  local function saturating_sub(warmth, by) return warmth > by and warmth - by or 0 end

  local function warmth_at(params, state, now)
    local idle = now - state[1]
    if idle < 0 then return state[3] end
    if idle > params[5] / 1000 + 1 then return 0 end
    idle = idle * 1000 - state[2]
    return saturating_sub(state[3], cooled(params, idle > 0 and idle or 0))
  end

  -- Nanoseconds that `cost` permits take, starting at this warmth: the stable gap for each, plus the area of
  -- the slope above it, u * v * slope_height / (2 * slope_end * 2^20), rounded up once.
  local function area(params, warmth, cost)
    local stable, slope_height, slope_end = params[1], params[2], params[3]
    local nanos = stable * cost
    local u = saturating_sub(slope_end, warmth)
    if u > 0 then
      local v = u
      if cost * 1048576 < u then
        v = 2 * u - cost * 1048576
        u = cost * 1048576
      end
      local whole_part, part = mul_div(u, v, 2 * slope_end)
      local high, rest_part = mul_div(whole_part, slope_height, 1048576)
      local part_nanos, remainder = mul_div(part, slope_height, 2 * slope_end)
      nanos = nanos + high + div_up(rest_part + part_nanos + (remainder > 0 and 1 or 0), 1048576)
    end
    return nanos
  end

  local function warmed(params, warmth, cost)
    local warmer = warmth + cost * 1048576
    return warmer < params[4] and warmer or params[4]
  end

  -- Advances a time by nanoseconds. Capped at 35 years.
  local function delay(micros, nanos, by)
    if by > 9007199254740000 then
      micros = micros + math.min(floor(by / 1000) + 1000000, 1125899906842624)
    else
      nanos = nanos + by
      local remainder = nanos % 1000
      micros, nanos = micros + (nanos - remainder) / 1000, remainder
    end
    return math.min(micros, 4503599627370496), nanos
  end

  local function charge(params, state, now, cost)
    local warmth = warmth_at(params, state, now)
    local free_at, nanos = state[1], state[2]
    if free_at < now then free_at, nanos = now, 0 end
    state[1], state[2] = delay(free_at, nanos, area(params, warmth, cost))
    state[3] = warmed(params, warmth, cost)
  end

  local function wait_nanos(state, now)
    local ahead = (state[1] - now) * 1000 + state[2]
    return ahead > 0 and ahead or 0
  end

  return {
    layout = function() return '<I7I2I7I7', 23 end,
    fresh = function() return { 0, 0, 0, 0 } end,
    check = function(_, state, now, cost)
      local ahead = wait_nanos(state, now)
      if ahead > 0 and cost > 0 then return 2, ahead end
      return 0, 0
    end,
    commit = function(params, state, now, cost)
      charge(params, state, now, cost)
      state[4] = now
    end,
    status = function(_, state, now)
      local ahead = wait_nanos(state, now)
      return ahead == 0 and 1 or 0, ahead
    end,
    full_at = function(params, state)
      local cooling = mul_div_up(state[3], params[5], params[4])
      return state[1] + div_up(state[2] + cooling, 1000)
    end,
    -- The result must not be warmer than if `actual` had been charged at first: the limiter would then have
    -- been free earlier and have cooled since. One nanosecond for rounding.
    settle = function(params, state, at, taken, actual, now)
      local free_at, nanos, warmth = state[1], state[2], state[3]
      if actual > taken then
        local extra = actual - taken
        local extended_free, extended_nanos = delay(free_at, nanos, area(params, warmth, extra))
        charge(params, state, now, extra)
        local cooling_nanos = (state[1] - extended_free) * 1000 + state[2] - extended_nanos + 1
        state[3] = saturating_sub(warmed(params, warmth, extra), cooled(params, cooling_nanos > 1 and cooling_nanos or 1))
        -- Earlier charges can no longer be refunded.
        state[4] = 0
        return true
      end
      if actual == taken or at == 0 or state[4] ~= at then return false end
      -- Refunds at the stable gap, the shortest one: never more than was charged.
      local unused = (taken - actual) * params[1]
      if unused > 4503599627370496 then return false end
      local coldest = saturating_sub(warmth, taken * 1048576)
      local charged = area(params, coldest, taken) - area(params, coldest, actual)
      local cooling_nanos = saturating_sub(charged, unused) + 1
      local remainder = (nanos - unused) % 1000
      free_at, nanos = free_at + (nanos - unused - remainder) / 1000, remainder
      if free_at < 0 then free_at, nanos = 0, 0 end
      state[1], state[2] = free_at, nanos
      state[3] = saturating_sub(warmed(params, coldest, actual), cooled(params, cooling_nanos))
      return true
    end,
  }
end
