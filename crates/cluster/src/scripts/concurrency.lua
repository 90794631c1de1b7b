-- Permits, in a key of their own: a sorted set of holders (16 bytes of id, then how many permits) by the
-- moment they expire, and one member 't' whose score is minus the number of permits out.
-- Numbers: the limit, the time to live, which of the second keys.
-- State, the same for all concurrency limits of a key: permits out, the key.
algorithms[7] = function()
  local function heal(key)
    if call('DEL', key) == 1 then healed = healed + 1 end
  end

  -- How many permits are out, once those of expired holders are taken back.
  local function out(key, now)
    local total = attempt('ZSCORE', key, 't')
    if type(total) ~= 'string' then
      -- Nothing, or nothing of ours: nobody looks until something is put there.
      return 0
    end
    total = -tonumber(total)
    local expired = call('ZRANGEBYSCORE', key, 0, now)
    if #expired > 0 then
      for place = 1, #expired do
        local holder = expired[place]
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
    open = function(numbers, second, states)
      local key = KEYS[second + numbers[3]]
      if states.permits then return states.permits end
      states.permits = { out(key, now), key }
      return states.permits
    end,
    check = function(numbers, state, _, cost)
      if cost > numbers[1] then return 4, 0 end
      if cost == 0 or cost <= numbers[1] - state[1] then return 0, 0 end
      return 3, 0
    end,
    commit = function(numbers, state, now, cost, permit)
      if numbers[4] == 0 then return end
      local key, total, expiry = state[2], state[1] + cost, now + numbers[2]
      local first = state[1] == 0
      if first then heal(key) end
      local added = call('ZADD', key, expiry, permit .. write('<I7', cost), -total, 't')
      if added == 0 then
        -- It holds them already: somebody asks twice.
        total = state[1]
        call('ZADD', key, -total, 't')
      end
      local gone = (expiry + (-expiry) % 1000) / 1000 + 1767225600000
      if first then call('PEXPIREAT', key, gone) else call('PEXPIREAT', key, gone, 'GT') end
      state[1] = total
    end,
    status = function(numbers, state)
      local left = numbers[1] - state[1]
      return left > 0 and left or 0, 0
    end,
    -- Whether the holder was still there.
    release = function(numbers, state, taken, permit)
      if numbers[4] == 0 or taken == 0 or attempt('ZREM', state[2], permit .. write('<I7', taken)) ~= 1 then
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
