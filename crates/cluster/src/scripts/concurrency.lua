-- Concurrency permits, stored in a separate key: a sorted set of holders (16 bytes of id, then the number of
-- permits) scored by expiry, and one member 't' whose score is minus the total of held permits.
-- Parameters: limit, permit TTL, index of the secondary key.
-- State, shared by all concurrency limits of a key: held permits, Redis key.
algorithms[NUMBER] = function()
  local function delete_foreign(key)
    if call('DEL', key) == 1 then replaced = replaced + 1 end
  end

  -- Number of held permits. Removes expired holders first.
  local function held_permits(key, now)
    local total = attempt('ZSCORE', key, 't')
    if type(total) ~= 'string' then
      -- Missing or a foreign value, which is replaced by the next write.
      return 0
    end
    total = -tonumber(total)
    local expired = call('ZRANGEBYSCORE', key, 0, now)
    if #expired > 0 then
      for index = 1, #expired do
        local holder = expired[index]
        if #holder == 23 then total = total - read('<I7', holder, 17) end
      end
      if total <= 0 then
        call('DEL', key)
        return 0
      end
      for first = 1, #expired, 4000 do
        call('ZREM', key, unpack(expired, first, math.min(first + 3999, #expired)))
      end
      call('ZADD', key, -total, 't')
    end
    return total
  end

  return {
    permits = true,
    open = function(params, secondary, states)
      local key = KEYS[secondary + params[3]]
      if states.permits then return states.permits end
      states.permits = { held_permits(key, now), key }
      return states.permits
    end,
    check = function(params, state, _, cost)
      if cost > params[1] then return 4, 0 end
      if cost == 0 or cost <= params[1] - state[1] then return 0, 0 end
      return 3, 0
    end,
    commit = function(params, state, now, cost, permit)
      if params[4] == 0 then return end
      local key, total, expiry = state[2], state[1] + cost, now + params[2]
      local first = state[1] == 0
      if first then delete_foreign(key) end
      local added = call('ZADD', key, expiry, permit .. write('<I7', cost), -total, 't')
      if added == 0 then
        -- A repeated call: the holder already has its permits.
        total = state[1]
        call('ZADD', key, -total, 't')
      end
      local expire_at_ms = (expiry + (-expiry) % 1000) / 1000 + 1767225600000
      if first then call('PEXPIREAT', key, expire_at_ms) else call('PEXPIREAT', key, expire_at_ms, 'GT') end
      state[1] = total
    end,
    status = function(params, state)
      local available = params[1] - state[1]
      return available > 0 and available or 0, 0
    end,
    -- Returns true if the holder was still registered.
    release = function(params, state, taken, permit)
      if params[4] == 0 or taken == 0 or attempt('ZREM', state[2], permit .. write('<I7', taken)) ~= 1 then
        return false
      end
      state[1] = state[1] - taken
      if state[1] <= 0 then
        state[1] = 0
        call('DEL', state[2])
      else
        call('ZADD', state[2], -state[1], 't')
      end
      return true
    end,
  }
end
