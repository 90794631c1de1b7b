-- Sliding window of cells.
-- Parameters: limit, cell length, number of cells, maximum counter value, bytes per counter.
-- State: number of the newest cell plus one, then a ring of counters with one more than the number of cells.
algorithms[NUMBER] = function()
  local function current(params, state, now)
    local cell = (now - now % params[2]) / params[2]
    if cell < state[1] - 1 then return state[1] - 1 end
    return cell
  end

  -- Oldest cell that counts if `cell` is the current one.
  local function oldest_at(params, state, cell)
    local oldest, oldest_stored = cell - params[3], state[1] - params[3] - 1
    if oldest < oldest_stored then oldest = oldest_stored end
    return oldest > 0 and oldest or 0
  end

  -- Usage if `cell` is the current one. With `headroom`, also the newest cell that, together with the later
  -- ones, exceeds it.
  local function used(params, state, cell, headroom)
    local newest, ring, total, blocking_cell = state[1], params[3] + 1, 0, nil
    local oldest = oldest_at(params, state, cell)
    local slot = (newest - 1) % ring + 2
    for number = newest - 1, oldest, -1 do
      total = total + state[slot]
      if headroom and not blocking_cell and total > headroom then blocking_cell = number end
      slot = slot - 1
      if slot < 2 then slot = ring + 1 end
    end
    return total, blocking_cell
  end

  local function expires_at(params, cell) return (cell + params[3] + 1) * params[2] end

  local function store(params, state, cell, value)
    if value > params[4] then value = params[4] end
    state[cell % (params[3] + 1) + 2] = value
  end

  local function commit(params, state, now, cost)
    local cell, newest, ring = current(params, state, now), state[1], params[3] + 1
    if newest == 0 or cell + 1 - newest > params[3] then
      for slot = 2, ring + 1 do state[slot] = 0 end
    else
      for number = newest, cell do state[number % ring + 2] = 0 end
    end
    state[1] = cell + 1
    store(params, state, cell, state[cell % ring + 2] + cost)
  end

  return {
    layout = function(params)
      local ring, width = params[3] + 1, params[5]
      return '<I7' .. rep('I' .. width, ring), 7 + width * ring
    end,
    fresh = function(params)
      local state = { 0 }
      for slot = 2, params[3] + 2 do state[slot] = 0 end
      return state
    end,
    check = function(params, state, now, cost)
      if cost > params[1] then return 4, 0 end
      if cost == 0 then return 0, 0 end
      local _, blocking_cell = used(params, state, current(params, state, now), params[1] - cost)
      if not blocking_cell then return 0, 0 end
      return 2, (expires_at(params, blocking_cell) - now) * 1000
    end,
    commit = commit,
    status = function(params, state, now)
      local total = used(params, state, current(params, state, now))
      local available = params[1] - total
      return available > 0 and available or 0, total > 0 and (expires_at(params, state[1] - 1) - now) * 1000 or 0
    end,
    full_at = function(params, state)
      return state[1] > 0 and expires_at(params, state[1] - 1) or 0
    end,
    settle = function(params, state, at, taken, actual, now)
      if actual == taken then return false end
      local cell = (at - at % params[2]) / params[2]
      if cell >= state[1] then
        -- Its cell was never written: the initial charge was zero.
        if actual < taken then return false end
        commit(params, state, now, actual - taken)
        return true
      end
      if state[1] - cell > params[3] + 1 then return false end
      local total = state[cell % (params[3] + 1) + 2]
      -- A saturated counter has lost its exact value.
      if total >= params[4] then return false end
      total = total - taken
      store(params, state, cell, (total > 0 and total or 0) + actual)
      return true
    end,
    -- Refunds the units that expire soonest.
    refund = function(params, state, now, amount)
      local ring = params[3] + 1
      for cell = oldest_at(params, state, current(params, state, now)), state[1] - 1 do
        local slot = cell % ring + 2
        local count = state[slot]
        -- A saturated counter has lost its exact value.
        local refunded = count < params[4] and (count < amount and count or amount) or 0
        state[slot], amount = count - refunded, amount - refunded
      end
      return true
    end,
  }
end
