-- Sliding window of cells.
-- Numbers: the limit, the length of a cell, how many cells, the most a counter holds, bytes per counter.
-- State: the newest cell's number plus one, then a ring of one counter more than there are cells.
algorithms[3] = function()
  local function current(numbers, state, now)
    local cell = (now - now % numbers[2]) / numbers[2]
    if cell < state[1] - 1 then return state[1] - 1 end
    return cell
  end

  -- The oldest cell that counts when `cell` is the current one.
  local function oldest_at(numbers, state, cell)
    local oldest, held = cell - numbers[3], state[1] - numbers[3] - 1
    if oldest < held then oldest = held end
    return oldest > 0 and oldest or 0
  end

  -- What counts when `cell` is the current one. With `room`, also the newest cell that does not fit into
  -- it together with those after it.
  local function used(numbers, state, cell, room)
    local newest, ring, total, stops = state[1], numbers[3] + 1, 0, nil
    local oldest = oldest_at(numbers, state, cell)
    local place = (newest - 1) % ring + 2
    for number = newest - 1, oldest, -1 do
      total = total + state[place]
      if room and not stops and total > room then stops = number end
      place = place - 1
      if place < 2 then place = ring + 1 end
    end
    return total, stops
  end

  local function gone_at(numbers, cell) return (cell + numbers[3] + 1) * numbers[2] end

  local function put(numbers, state, cell, value)
    if value > numbers[4] then value = numbers[4] end
    state[cell % (numbers[3] + 1) + 2] = value
  end

  local function commit(numbers, state, now, cost)
    local cell, newest, ring = current(numbers, state, now), state[1], numbers[3] + 1
    if newest == 0 or cell + 1 - newest > numbers[3] then
      for place = 2, ring + 1 do state[place] = 0 end
    else
      for number = newest, cell do state[number % ring + 2] = 0 end
    end
    state[1] = cell + 1
    put(numbers, state, cell, state[cell % ring + 2] + cost)
  end

  return {
    layout = function(numbers)
      local ring, width = numbers[3] + 1, numbers[5]
      return '<I7' .. rep('I' .. width, ring), 7 + width * ring
    end,
    fresh = function(numbers)
      local state = { 0 }
      for place = 2, numbers[3] + 2 do state[place] = 0 end
      return state
    end,
    check = function(numbers, state, now, cost)
      if cost > numbers[1] then return 4, 0 end
      if cost == 0 then return 0, 0 end
      local _, stops = used(numbers, state, current(numbers, state, now), numbers[1] - cost)
      if not stops then return 0, 0 end
      return 2, (gone_at(numbers, stops) - now) * 1000
    end,
    commit = commit,
    status = function(numbers, state, now)
      local total = used(numbers, state, current(numbers, state, now))
      local left = numbers[1] - total
      return left > 0 and left or 0, total > 0 and (gone_at(numbers, state[1] - 1) - now) * 1000 or 0
    end,
    full_at = function(numbers, state)
      return state[1] > 0 and gone_at(numbers, state[1] - 1) or 0
    end,
    settle = function(numbers, state, at, taken, actual, now)
      if actual == taken then return false end
      local cell = (at - at % numbers[2]) / numbers[2]
      if cell >= state[1] then
        -- Its cell was never written: nothing was taken at first.
        if actual < taken then return false end
        commit(numbers, state, now, actual - taken)
        return true
      end
      if state[1] - cell > numbers[3] + 1 then return false end
      local total = state[cell % (numbers[3] + 1) + 2]
      -- A counter at its highest has lost count.
      if total >= numbers[4] then return false end
      total = total - taken
      put(numbers, state, cell, (total > 0 and total or 0) + actual)
      return true
    end,
    -- What counts the shortest goes first.
    refund = function(numbers, state, now, amount)
      local ring = numbers[3] + 1
      for cell = oldest_at(numbers, state, current(numbers, state, now)), state[1] - 1 do
        local place = cell % ring + 2
        local count = state[place]
        -- A counter at its highest has lost count.
        local out = count < numbers[4] and (count < amount and count or amount) or 0
        state[place], amount = count - out, amount - out
      end
      return true
    end,
  }
end
