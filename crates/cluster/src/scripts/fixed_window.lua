-- Fixed window.
-- Parameters: limit, window, offset of the start of 2026 within its window (-1: windows start with first use).
-- State: end of the window, usage in it.
algorithms[NUMBER] = function()
  local function window_end_at(params, at)
    if params[3] < 0 then return at + params[2] end
    return at + params[2] - (at + params[3]) % params[2]
  end

  local function current(params, state, now)
    if now < state[1] then return state[1], state[2] end
    return window_end_at(params, now), 0
  end

  local function store(state, window_end, used)
    if used > 9007199254740991 then used = 9007199254740991 end
    state[1], state[2] = window_end, used
  end

  return {
    layout = function() return '<I7I7', 14 end,
    fresh = function() return { 0, 0 } end,
    check = function(params, state, now, cost)
      if cost > params[1] then return 4, 0 end
      local window_end, used = current(params, state, now)
      if cost == 0 or cost <= params[1] - used then return 0, 0 end
      return 2, (window_end - now) * 1000
    end,
    commit = function(params, state, now, cost)
      local window_end, used = current(params, state, now)
      store(state, window_end, used + cost)
    end,
    status = function(params, state, now)
      local window_end, used = current(params, state, now)
      local available = params[1] - used
      return available > 0 and available or 0, used > 0 and (window_end - now) * 1000 or 0
    end,
    full_at = function(_, state) return state[1] end,
    settle = function(params, state, at, taken, actual, now)
      if actual == taken then return false end
      local mark = window_end_at(params, at)
      if params[3] < 0 and at < state[1] and at >= state[1] - params[2] then mark = state[1] end
      if state[1] == mark then
        local used = state[2] - taken
        store(state, mark, (used > 0 and used or 0) + actual)
        return true
      end
      if actual < taken or now >= mark then return false end
      local window_end, used = current(params, state, now)
      store(state, window_end, used + actual - taken)
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
