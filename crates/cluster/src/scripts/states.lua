-- Sets of limits of any kind, and their states. All of it is made only in calls that need it: making a
-- function costs time, and most calls know nothing but token buckets.
local function general()
  local sets, states, changed = {}, {}, {}
  local attempt, floor, rep, sub = redis.pcall, math.floor, string.rep, string.sub
  local algorithms = {}
  --!include arithmetic
  --!include bucket
  --!include fixed_window
  --!include sliding_window
  --!include interpolated_window
  --!include sliding_log
  --!include warm_up
  --!include concurrency

  -- A set of limits from its description.
  local function described(index)
    local text = ARGV[index]
    local _, limits, seconds, only_permits, place = read('<BBBB', text)
    local set = { limits = limits, seconds = seconds, only_permits = only_permits == 1, size = 1 }
    for limit = 1, limits do
      local kind, length
      kind, length, place = read('<BB', text, place)
      local numbers = { read('<' .. rep('d', length), text, place) }
      place = numbers[length + 1]
      local algorithm = algorithms[kind]
      if type(algorithm) == 'function' then
        algorithm = algorithm()
        algorithms[kind] = algorithm
      end
      local part = { algorithm = algorithm, numbers = numbers }
      if algorithm.layout then
        local layout, width = algorithm.layout(numbers)
        part.layout, part.from = layout, set.size + 1
        set.size = set.size + width
      end
      if algorithm.permits then set.permits = true end
      set[limit] = part
    end
    sets[index] = set
    return set
  end

  -- The states of a key's limits, read once per call.
  local function loaded(key, set, second)
    local state = states[key]
    if state then return state end
    local value = values[key]
    if value and (#value ~= set.size or byte(value) ~= 245) then
      call('DEL', KEYS[key])
      values[key], value = false, false
      healed = healed + 1
    end
    state = { set = set }
    for limit = 1, set.limits do
      local part = set[limit]
      if part.algorithm.open then
        state[limit] = part.algorithm.open(part.numbers, second, state)
      elseif value then
        state[limit] = { read(part.layout, value, part.from) }
      else
        state[limit] = part.algorithm.fresh(part.numbers)
      end
    end
    states[key] = state
    return state
  end

  -- Writes back what has changed; what is full again is removed.
  function flush()
    for key = 1, count do
      local state = changed[key] and states[key]
      if state and state.set.size > 1 then
        local set, gone = state.set, 0
        local parts = { '\245' }
        for limit = 1, set.limits do
          local part = set[limit]
          if part.layout then
            local full = part.algorithm.full_at(part.numbers, state[limit])
            if full > gone then gone = full end
            parts[#parts + 1] = write(part.layout, unpack(state[limit]))
          end
        end
        if gone <= now then
          if values[key] then call('DEL', KEYS[key]) end
        else
          gone = string.format('%d', (gone + (-gone) % 1000) / 1000 + 1767225600000)
          local value = table.concat(parts)
          if values[key] then
            call('SET', KEYS[key], value, 'PXAT', gone)
          elseif not call('SET', KEYS[key], value, 'PXAT', gone, 'NX') then
            call('SET', KEYS[key], value, 'PXAT', gone)
            healed = healed + 1
          end
        end
      end
    end
  end

  --!include general
end
