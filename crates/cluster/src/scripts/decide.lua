-- Decides the request that starts with this check. Returns the offset of the next request.
local group = {}
return function(key, set, cost, offset)
  local group_size, admitted, more = 0, true, true
  while true do
    more = set >= 2147483648
    if more then set = set - 2147483648 end
    local limits = sets[set] or decode_limit_set(set)
    local secondary, permit
    if limits.secondary_keys > 0 then secondary, offset = read('<I4', checks, offset) end
    if limits.permits then
      permit = sub(checks, offset, offset + 15)
      offset = offset + 16
    end
    local state = load_state(key, limits, secondary)
    local permits = limits.only_permits and cost or (cost > 0 and 1 or 0)
    local check, wait, deciding = 0, 0, 1
    for limit = 1, limits.limits do
      local part = limits[limit]
      local algorithm = part.algorithm
      local result, result_wait = algorithm.check(part.params, state[limit], now, algorithm.permits and permits or cost)
      if result > check or (result == check and result_wait > wait) then check, wait, deciding = result, result_wait, limit end
    end
    if check > 1 then admitted = false end
    group_size = group_size + 1
    local item = group[group_size]
    if not item then
      item = {}
      group[group_size] = item
    end
    item.key, item.limits, item.state, item.cost, item.permits, item.permit = key, limits, state, cost, permits, permit
    item.check, item.wait, item.deciding = check, wait, deciding
    if not more then break end
    key, set, cost, offset = read('<I4I4I7', checks, offset)
  end

  for index = 1, group_size do
    local item = group[index]
    local limits, state, deciding = item.limits, item.state, item.deciding
    if admitted and item.cost > 0 then
      for limit = 1, limits.limits do
        local part = limits[limit]
        local algorithm = part.algorithm
        local amount = algorithm.permits and item.permits or item.cost
        algorithm.commit(part.params, state[limit], now, amount, item.permit)
      end
      changed[item.key] = true
    end
    local remaining, reset
    if item.check == 0 then
      for limit = 1, limits.limits do
        local part = limits[limit]
        local available, full_in = part.algorithm.status(part.params, state[limit], now)
        if not remaining or available < remaining then remaining, reset, deciding = available, full_in, limit end
      end
    else
      local part = limits[deciding]
      remaining, reset = part.algorithm.status(part.params, state[deciding], now)
    end
    reply[reply_len + 1] = item.check + 8 * (deciding - 1)
    reply[reply_len + 2] = remaining
    reply[reply_len + 3] = reset
    reply_len = reply_len + 3
    if item.check == 1 or item.check == 2 then
      reply_len = reply_len + 1
      reply[reply_len] = item.wait
    end
  end
  return offset
end
