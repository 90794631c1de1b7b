-- Settles the check at this offset. Returns the offset of the next one.
return function(offset)
  local key, set, taken, at, actual
  key, set, taken, at, actual, offset = read('<I4I4I7I7I7', checks, offset)
  local limits = sets[set] or decode_limit_set(set)
  local secondary, permit
  if limits.secondary_keys > 0 then secondary, offset = read('<I4', checks, offset) end
  if limits.permits then
    permit = sub(checks, offset, offset + 15)
    offset = offset + 16
  end
  local state = load_state(key, limits, secondary)
  -- Time 0: a refund of a charge at an unknown time. Pacing limits keep the charge; permits stay held.
  local refund = at == 0
  local permits = limits.only_permits and taken or (taken > 0 and 1 or 0)
  local released = 0
  for limit = 1, limits.limits do
    local part = limits[limit]
    local algorithm = part.algorithm
    if refund then
      if algorithm.refund and algorithm.refund(part.params, state[limit], now, taken) then changed[key] = true end
    elseif algorithm.permits then
      if algorithm.release(part.params, state[limit], permits, permit) then released = 1 end
    elseif algorithm.settle(part.params, state[limit], at, taken, actual, now) then
      changed[key] = true
    end
  end
  reply_len = reply_len + 1
  reply[reply_len] = released
  return offset
end
