-- Ends the unit that stands here; answers where the next one begins.
return function(place)
  local key, set, taken, at, actual
  key, set, taken, at, actual, place = read('<I4I4I7I7I7', units, place)
  local limits = sets[set] or described(set)
  local second, permit
  if limits.seconds > 0 then second, place = read('<I4', units, place) end
  if limits.permits then
    permit = sub(units, place, place + 15)
    place = place + 16
  end
  local state = loaded(key, limits, second)
  -- At no moment: somebody took it before, nobody knows when. What paces keeps it, and permits are their holders'.
  local refund = at == 0
  local permits = limits.only_permits and taken or (taken > 0 and 1 or 0)
  local released = 0
  for limit = 1, limits.limits do
    local part = limits[limit]
    local algorithm = part.algorithm
    if refund then
      if algorithm.refund and algorithm.refund(part.numbers, state[limit], now, taken) then changed[key] = true end
    elseif algorithm.permits then
      if algorithm.release(part.numbers, state[limit], permits, permit) then released = 1 end
    elseif algorithm.settle(part.numbers, state[limit], at, taken, actual, now) then
      changed[key] = true
    end
  end
  filled = filled + 1
  answer[filled] = released
  return place
end
