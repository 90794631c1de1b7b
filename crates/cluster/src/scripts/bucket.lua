-- Token bucket, bandwidth and leaky bucket.
-- Parameters: time per token in microseconds and ticks (sixteenths of a nanosecond), burst, approximate ticks
-- per token, time from empty to full in microseconds and ticks, 1 for a leaky bucket.
-- State: arrival time in microseconds and ticks, time of the last charge.
algorithms[NUMBER] = function()
  local function span(params, cost)
    local ticks = cost * params[2]
    local remainder = ticks % 16000
    return cost * params[1] + (ticks - remainder) / 16000, remainder
  end

  -- Time by which the arrival time is ahead of now.
  local function ahead_of(state, now)
    local ahead = state[1] - now
    if ahead < 0 then return 0, 0 end
    return ahead, state[2]
  end

  -- Advances the arrival time, starting no earlier than `from`. Capped at 35 years.
  local function charge(params, state, from, cost)
    local arrival, fraction = state[1], state[2]
    if arrival < from then arrival, fraction = from, 0 end
    local micros, ticks = 1125899906842624, 0
    if cost * params[2] <= 4503599627370496 and cost * params[1] <= micros then micros, ticks = span(params, cost) end
    arrival, fraction = arrival + micros, fraction + ticks
    if fraction >= 16000 then arrival, fraction = arrival + 1, fraction - 16000 end
    if arrival > 4503599627370496 then arrival = 4503599627370496 end
    state[1], state[2] = arrival, fraction
  end

  local function refund_cost(params, state, cost)
    local micros, ticks = span(params, cost)
    local arrival, fraction = state[1] - micros, state[2] - ticks
    if fraction < 0 then arrival, fraction = arrival - 1, fraction + 16000 end
    if arrival < 0 then arrival, fraction = 0, 0 end
    state[1], state[2] = arrival, fraction
  end

  return {
    layout = function() return '<I7I2I7', 16 end,
    fresh = function() return { 0, 0, 0 } end,
    check = function(params, state, now, cost)
      local burst = params[3]
      if cost > burst then return 4, 0 end
      if cost == 0 then return 0, 0 end
      local ahead, fraction = ahead_of(state, now)
      local headroom, ticks = span(params, burst - cost)
      if ahead > headroom or (ahead == headroom and fraction > ticks) then
        return 2, (ahead - headroom) * 1000 + ticks_to_nanos(fraction - ticks)
      end
      if params[7] == 1 and (ahead > 0 or fraction > 0) then return 1, ahead * 1000 + ticks_to_nanos(fraction) end
      return 0, 0
    end,
    commit = function(params, state, now, cost)
      charge(params, state, now, cost)
      if state[3] < now then state[3] = now end
    end,
    status = function(params, state, now)
      local ahead, fraction = ahead_of(state, now)
      local available, ticks = params[5] - ahead, params[6] - fraction
      if ticks < 0 then available, ticks = available - 1, ticks + 16000 end
      local remaining = 0
      if available >= 0 then
        remaining = floor((available * 16000 + ticks) / params[4])
        if available >= 274877906944 then
          -- The division is inexact: correct the result by at most one.
          local micros, remainder = span(params, remaining)
          if micros > available or (micros == available and remainder > ticks) then
            remaining = remaining - 1
          else
            micros, remainder = span(params, remaining + 1)
            if micros < available or (micros == available and remainder <= ticks) then remaining = remaining + 1 end
          end
        end
      end
      return remaining, ahead * 1000 + ticks_to_nanos(fraction)
    end,
    full_at = function(_, state)
      if state[2] > 0 then return state[1] + 1 end
      return state[1]
    end,
    settle = function(params, state, at, taken, actual, now)
      if actual > taken then
        -- A leaky bucket may have been empty since: charge it at the original time.
        charge(params, state, params[7] == 1 and at or now, actual - taken)
        if state[3] < now then state[3] = now end
        return true
      end
      -- Tokens are refunded only if no charge followed; a leaky bucket only if it held no other request.
      local micros, ticks = span(params, taken)
      local is_only = state[1] == at + micros and state[2] == ticks
      if actual == taken or state[3] ~= at or (params[7] == 1 and not is_only) then return false end
      refund_cost(params, state, taken - actual)
      return true
    end,
    refund = function(params, state, _, amount)
      -- Requests queued behind it already know their departure times.
      if params[7] == 1 then return false end
      refund_cost(params, state, amount)
      return true
    end,
  }
end
