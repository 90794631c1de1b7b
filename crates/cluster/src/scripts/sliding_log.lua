-- Sliding log, stored in a separate key: a tag byte, the position of the oldest entry and the newest expiry,
-- then a ring of expiry times, seven bytes per unit. A decision reads only a few of them.
-- Parameters: limit, window, index of the secondary key.
-- State: position of the oldest entry, newest expiry, Redis key. A position beyond the ring marks an overdrawn
-- log: more was charged than it has entries.
algorithms[NUMBER] = function()
  local function save(state)
    call('SETRANGE', state[3], 0, write('<BI4I7', 245, state[1], state[2]))
    local expiry = state[2]
    call('PEXPIREAT', state[3], (expiry + (-expiry) % 1000) / 1000 + 1767225600000)
  end

  -- Expiry of the entry with this age; 0 is the oldest.
  local function entry(params, state, age)
    local from = (state[1] + age) % params[1] * 7 + 12
    local text = call('GETRANGE', state[3], from, from + 6)
    if #text < 7 then return 0 end
    return (read('<I7', text))
  end

  local function expiry_at(params, state, now)
    local expiry = now + params[2]
    return expiry > state[2] and expiry or state[2]
  end

  local function commit(params, state, now, cost)
    local limit, expiry = params[1], expiry_at(params, state, now)
    if cost > limit then cost = limit end
    local oldest = state[1] % limit
    local before_end = limit - oldest
    local text = write('<I7', expiry)
    call('SETRANGE', state[3], oldest * 7 + 12, rep(text, cost < before_end and cost or before_end))
    if cost > before_end then call('SETRANGE', state[3], 12, rep(text, cost - before_end)) end
    state[1], state[2] = (oldest + cost) % limit, expiry
    save(state)
  end

  local function remaining(params, state, now)
    local low, high = 0, params[1]
    if state[2] <= now then return high end
    if entry(params, state, 0) > now then return 0 end
    low, high = 1, high - 1
    while low < high do
      local middle = floor((low + high) / 2)
      if entry(params, state, middle) <= now then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Rewrites the ring, oldest entry first, starting at this position.
  local function rewrite(state, entries, position)
    state[1], state[2] = position, entries[#entries]
    for index = 1, #entries do entries[index] = write('<I7', entries[index]) end
    call('SETRANGE', state[3], 12, table.concat(entries))
    save(state)
  end

  return {
    open = function(params, secondary)
      local key = KEYS[secondary + params[3]]
      local head = attempt('GETRANGE', key, 0, 11)
      if type(head) == 'string' and #head == 12 and byte(head) == 245 then
        local _, oldest, newest = read('<BI4I7', head)
        return { oldest % (2 * params[1]), newest, key }
      end
      if head ~= '' then
        call('DEL', key)
        replaced = replaced + 1
      end
      return { 0, 0, key }
    end,
    check = function(params, state, now, cost)
      if cost > params[1] then return 4, 0 end
      if cost == 0 or state[2] <= now then return 0, 0 end
      local wait = entry(params, state, cost - 1) - now
      if wait <= 0 then return 0, 0 end
      return 2, wait * 1000
    end,
    commit = commit,
    status = function(params, state, now)
      return remaining(params, state, now), state[2] > now and (state[2] - now) * 1000 or 0
    end,
    settle = function(params, state, at, taken, actual, now)
      local limit = params[1]
      if actual > taken then
        local extra = actual - taken
        if remaining(params, state, now) >= extra then
          commit(params, state, now, extra)
        else
          -- All entries become one debt that cannot be refunded; see the engine's sliding_log.rs.
          local entries, expiry = {}, expiry_at(params, state, now) + 1
          for index = 1, limit do entries[index] = expiry end
          rewrite(state, entries, limit)
        end
      elseif actual < taken and state[2] > now and state[1] < limit then
        -- Entries charged at that time expire at it.
        local entries, later, freed, mark = {}, {}, taken - actual, at + params[2]
        for age = 0, limit - 1 do
          local expiry = entry(params, state, age)
          if expiry == mark and freed > 0 then
            expiry, freed = at, freed - 1
          end
          if expiry <= at then entries[#entries + 1] = expiry else later[#later + 1] = expiry end
        end
        for index = 1, #later do entries[#entries + 1] = later[index] end
        if entries[limit] <= now then
          call('DEL', state[3])
          state[1], state[2] = 0, 0
        else
          rewrite(state, entries, 0)
        end
      end
      return false
    end,
    -- Frees the oldest active entries. A debt stays, because its size is unknown.
    refund = function(params, state, now, amount)
      local limit = params[1]
      if state[2] <= now or state[1] >= limit then return false end
      local entries, free = {}, remaining(params, state, now)
      if amount >= limit - free then
        call('DEL', state[3])
        state[1], state[2] = 0, 0
        return false
      end
      for age = 0, limit - 1 do
        local freed = age >= free and age < free + amount
        entries[age + 1] = freed and now or entry(params, state, age)
      end
      rewrite(state, entries, 0)
      return false
    end,
  }
end
