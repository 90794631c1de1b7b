-- Sliding log, in a key of its own: a mark, the position of the oldest entry and the newest expiry, then
-- a ring of moments at which units stop counting, seven bytes each. Deciding reads a few of them.
-- Numbers: the limit, the window, which of the second keys.
-- State: position of the oldest, the newest expiry, the key. A position beyond the ring, where it begins
-- anew, says that more was charged than the log has entries.
algorithms[5] = function()
  local function save(state)
    call('SETRANGE', state[3], 0, write('<BI4I7', 245, state[1], state[2]))
    local expiry = state[2]
    call('PEXPIREAT', state[3], (expiry + (-expiry) % 1000) / 1000 + 1767225600000)
  end

  -- The expiry of the entry of this age: 0 is the oldest.
  local function entry(numbers, state, age)
    local from = (state[1] + age) % numbers[1] * 7 + 12
    local text = call('GETRANGE', state[3], from, from + 6)
    if #text < 7 then return 0 end
    return (read('<I7', text))
  end

  local function expiry_at(numbers, state, now)
    local expiry = now + numbers[2]
    return expiry > state[2] and expiry or state[2]
  end

  local function commit(numbers, state, now, cost)
    local limit, expiry = numbers[1], expiry_at(numbers, state, now)
    if cost > limit then cost = limit end
    local oldest = state[1] % limit
    local before_end = limit - oldest
    local text = write('<I7', expiry)
    call('SETRANGE', state[3], oldest * 7 + 12, rep(text, cost < before_end and cost or before_end))
    if cost > before_end then call('SETRANGE', state[3], 12, rep(text, cost - before_end)) end
    state[1], state[2] = (oldest + cost) % limit, expiry
    save(state)
  end

  local function remaining(numbers, state, now)
    local low, high = 0, numbers[1]
    if state[2] <= now then return high end
    if entry(numbers, state, 0) > now then return 0 end
    low, high = 1, high - 1
    while low < high do
      local middle = floor((low + high) / 2)
      if entry(numbers, state, middle) <= now then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Writes the whole ring anew, oldest first, from this position on.
  local function rewrite(state, entries, position)
    state[1], state[2] = position, entries[#entries]
    for place = 1, #entries do entries[place] = write('<I7', entries[place]) end
    call('SETRANGE', state[3], 12, table.concat(entries))
    save(state)
  end

  return {
    open = function(numbers, second)
      local key = KEYS[second + numbers[3]]
      local head = attempt('GETRANGE', key, 0, 11)
      if type(head) == 'string' and #head == 12 and byte(head) == 245 then
        local _, oldest, newest = read('<BI4I7', head)
        return { oldest % (2 * numbers[1]), newest, key }
      end
      if head ~= '' then
        call('DEL', key)
        healed = healed + 1
      end
      return { 0, 0, key }
    end,
    check = function(numbers, state, now, cost)
      if cost > numbers[1] then return 4, 0 end
      if cost == 0 or state[2] <= now then return 0, 0 end
      local wait = entry(numbers, state, cost - 1) - now
      if wait <= 0 then return 0, 0 end
      return 2, wait * 1000
    end,
    commit = commit,
    status = function(numbers, state, now)
      return remaining(numbers, state, now), state[2] > now and (state[2] - now) * 1000 or 0
    end,
    settle = function(numbers, state, at, taken, actual, now)
      local limit = numbers[1]
      if actual > taken then
        local extra = actual - taken
        if remaining(numbers, state, now) >= extra then
          commit(numbers, state, now, extra)
        else
          -- All entries become one debt that nobody can give back: see the engine's log.
          local entries, expiry = {}, expiry_at(numbers, state, now) + 1
          for place = 1, limit do entries[place] = expiry end
          rewrite(state, entries, limit)
        end
      elseif actual < taken and state[2] > now and state[1] < limit then
        -- Entries taken at that moment are free from it on.
        local entries, later, freed, mark = {}, {}, taken - actual, at + numbers[2]
        for age = 0, limit - 1 do
          local expiry = entry(numbers, state, age)
          if expiry == mark and freed > 0 then
            expiry, freed = at, freed - 1
          end
          if expiry <= at then entries[#entries + 1] = expiry else later[#later + 1] = expiry end
        end
        for place = 1, #later do entries[#entries + 1] = later[place] end
        if entries[limit] <= now then
          call('DEL', state[3])
          state[1], state[2] = 0, 0
        else
          rewrite(state, entries, 0)
        end
      end
      return false
    end,
    -- The oldest that count are free from now on. Of a debt nobody knows how large it is, and it stays.
    refund = function(numbers, state, now, amount)
      local limit = numbers[1]
      if state[2] <= now or state[1] >= limit then return false end
      local entries, free = {}, remaining(numbers, state, now)
      if amount >= limit - free then
        call('DEL', state[3])
        state[1], state[2] = 0, 0
        return false
      end
      for age = 0, limit - 1 do
        local freed = age >= free and age < free + amount
        entries[age + 1] = freed and now or entry(numbers, state, age)
      end
      rewrite(state, entries, 0)
      return false
    end,
  }
end
