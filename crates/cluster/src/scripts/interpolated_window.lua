-- Interpolated window.
-- Parameters: limit, window, resolution of overlaps in units per microsecond.
-- State: number of the current window plus one, count of the previous window, count of the current window.
algorithms[NUMBER] = function()
  local function counts(params, state, now)
    local window = (now - now % params[2]) / params[2]
    if window < state[1] - 1 then window = state[1] - 1 end
    local age = window + 1 - state[1]
    if age == 0 then return window, state[2], state[3] end
    if age == 1 then return window, state[3], 0 end
    return window, 0, 0
  end

  local function overlap(params, window, now)
    local elapsed = now - window * params[2]
    if elapsed < 0 then return params[2] end
    if elapsed > params[2] then return 0 end
    return params[2] - elapsed
  end

  -- Maximum overlap at which `count` of the previous window fits into `headroom`.
  local function max_overlap(params, count, headroom)
    local full_window = params[2] * params[3]
    if count <= headroom then return full_window end
    return (mul_div(headroom, full_window, count))
  end

  local function commit(params, state, now, cost)
    local window, previous, current = counts(params, state, now)
    current = current + cost
    if current > 9007199254740991 then current = 9007199254740991 end
    state[1], state[2], state[3] = window + 1, previous, current
  end

  local function full_at(params, state)
    if state[1] == 0 then return 0 end
    if state[3] == 0 then return state[1] * params[2] end
    return (state[1] + 1) * params[2]
  end

  return {
    layout = function() return '<I7I7I7', 21 end,
    fresh = function() return { 0, 0, 0 } end,
    check = function(params, state, now, cost)
      local limit, length, scale = params[1], params[2], params[3]
      if cost > limit then return 4, 0 end
      if cost == 0 then return 0, 0 end
      local window, previous, current = counts(params, state, now)
      local headroom, wait = limit - cost - current, nil
      if headroom >= 0 then
        local allowed_overlap = max_overlap(params, previous, headroom)
        if overlap(params, window, now) * scale <= allowed_overlap then return 0, 0 end
        wait = length * scale - allowed_overlap
      else
        -- The current window alone exceeds the headroom: it has to become the previous one first.
        wait = 2 * length * scale - max_overlap(params, current, limit - cost)
      end
      return 2, (window * length - now) * 1000 + wait * (1000 / scale)
    end,
    commit = commit,
    status = function(params, state, now)
      local window, previous, current = counts(params, state, now)
      local used = mul_div_up(previous, overlap(params, window, now), params[2]) + current
      local available = params[1] - used
      local reset = 0
      if used > 0 then reset = (full_at(params, state) - now) * 1000 end
      return available > 0 and available or 0, reset > 0 and reset or 0
    end,
    full_at = full_at,
    settle = function(params, state, at, taken, actual, now)
      if actual == taken then return false end
      local age = state[1] - (at - at % params[2]) / params[2]
      if age <= 0 then
        -- Its window was never written: the initial charge was zero.
        if actual < taken then return false end
        commit(params, state, now, actual - taken)
        return true
      end
      if age > 2 then return false end
      local slot = age == 1 and 3 or 2
      local count = state[slot] - taken
      count = (count > 0 and count or 0) + actual
      state[slot] = count < 9007199254740991 and count or 9007199254740991
      return true
    end,
    -- Refunds the current window first: the previous one counts only in part.
    refund = function(params, state, now, amount)
      local window, previous, current = counts(params, state, now)
      if previous == 0 and current == 0 then return false end
      current = current - amount
      if current < 0 then previous, current = previous + current, 0 end
      state[1], state[2], state[3] = window + 1, previous > 0 and previous or 0, current
      return true
    end,
  }
end
