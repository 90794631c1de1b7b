-- Limit sets of any kind and their states. Created only in calls that need them: creating functions takes
-- time, and most calls use only token buckets.
local function general()
  local sets, states, changed = {}, {}, {}
  local attempt, floor, rep, sub = redis.pcall, math.floor, string.rep, string.sub
  local algorithms = {}
  --!include arithmetic
  --!include algorithms

  -- Decodes a limit set.
  local function decode_limit_set(index)
    local text = ARGV[index]
    local _, limits, secondary_keys, only_permits, offset = read('<BBBB', text)
    local set = { limits = limits, secondary_keys = secondary_keys, only_permits = only_permits == 1, size = 1 }
    for limit = 1, limits do
      local kind, length
      kind, length, offset = read('<BB', text, offset)
      local params = { read('<' .. rep('d', length), text, offset) }
      offset = params[length + 1]
      local algorithm = algorithms[kind]
      if type(algorithm) == 'function' then
        algorithm = algorithm()
        algorithms[kind] = algorithm
      end
      local part = { algorithm = algorithm, params = params }
      if algorithm.layout then
        local layout, width = algorithm.layout(params)
        part.layout, part.from = layout, set.size + 1
        set.size = set.size + width
      end
      if algorithm.permits then set.permits = true end
      set[limit] = part
    end
    sets[index] = set
    return set
  end

  -- Loads the states of a key's limits, once per call.
  local function load_state(key, set, secondary)
    local state = states[key]
    if state then return state end
    local value = values[key]
    if value and (#value ~= set.size or byte(value) ~= 245) then
      call('DEL', KEYS[key])
      values[key], value = false, false
      replaced = replaced + 1
    end
    state = { set = set }
    for limit = 1, set.limits do
      local part = set[limit]
      if part.algorithm.open then
        state[limit] = part.algorithm.open(part.params, secondary, state)
      elseif value then
        state[limit] = { read(part.layout, value, part.from) }
      else
        state[limit] = part.algorithm.fresh(part.params)
      end
    end
    states[key] = state
    return state
  end

  -- Writes changed states back; deletes keys that are full again.
  function flush()
    for key = 1, count do
      local state = changed[key] and states[key]
      if state and state.set.size > 1 then
        local set, expires = state.set, 0
        local parts = { '\245' }
        for limit = 1, set.limits do
          local part = set[limit]
          if part.layout then
            local full = part.algorithm.full_at(part.params, state[limit])
            if full > expires then expires = full end
            parts[#parts + 1] = write(part.layout, unpack(state[limit]))
          end
        end
        if expires <= now then
          if values[key] then call('DEL', KEYS[key]) end
        else
          expires = string.format('%d', (expires + (-expires) % 1000) / 1000 + 1767225600000)
          local value = table.concat(parts)
          if values[key] then
            call('SET', KEYS[key], value, 'PXAT', expires)
          elseif not call('SET', KEYS[key], value, 'PXAT', expires, 'NX') then
            call('SET', KEYS[key], value, 'PXAT', expires)
            replaced = replaced + 1
          end
        end
      end
    end
  end

  --!include general
end
