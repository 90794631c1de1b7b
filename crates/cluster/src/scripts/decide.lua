-- Decides the ask that begins with this unit; answers where the next one begins.
local asked = {}
return function(key, set, cost, place)
  local units_asked, admitted, more = 0, true, true
  while true do
    more = set >= 2147483648
    if more then set = set - 2147483648 end
    local limits = sets[set] or described(set)
    local second, permit
    if limits.seconds > 0 then second, place = read('<I4', units, place) end
    if limits.permits then
      permit = sub(units, place, place + 15)
      place = place + 16
    end
    local state = loaded(key, limits, second)
    local permits = limits.only_permits and cost or (cost > 0 and 1 or 0)
    local check, wait, hangs_on = 0, 0, 1
    for limit = 1, limits.limits do
      local part = limits[limit]
      local algorithm = part.algorithm
      local found, pause = algorithm.check(part.numbers, state[limit], now, algorithm.permits and permits or cost)
      if found > check or (found == check and pause > wait) then check, wait, hangs_on = found, pause, limit end
    end
    if check > 1 then admitted = false end
    units_asked = units_asked + 1
    local unit = asked[units_asked]
    if not unit then
      unit = {}
      asked[units_asked] = unit
    end
    unit.key, unit.limits, unit.state, unit.cost, unit.permits, unit.permit = key, limits, state, cost, permits, permit
    unit.check, unit.wait, unit.hangs_on = check, wait, hangs_on
    if not more then break end
    key, set, cost, place = read('<I4I4I7', units, place)
  end

  for nth = 1, units_asked do
    local unit = asked[nth]
    local limits, state, hangs_on = unit.limits, unit.state, unit.hangs_on
    if admitted and unit.cost > 0 then
      for limit = 1, limits.limits do
        local part = limits[limit]
        local algorithm = part.algorithm
        local wanted = algorithm.permits and unit.permits or unit.cost
        algorithm.commit(part.numbers, state[limit], now, wanted, unit.permit)
      end
      changed[unit.key] = true
    end
    local remaining, reset
    if unit.check == 0 then
      for limit = 1, limits.limits do
        local part = limits[limit]
        local left, full_in = part.algorithm.status(part.numbers, state[limit], now)
        if not remaining or left < remaining then remaining, reset, hangs_on = left, full_in, limit end
      end
    else
      local part = limits[hangs_on]
      remaining, reset = part.algorithm.status(part.numbers, state[hangs_on], now)
    end
    answer[filled + 1] = unit.check + 8 * (hangs_on - 1)
    answer[filled + 2] = remaining
    answer[filled + 3] = reset
    filled = filled + 3
    if unit.check == 1 or unit.check == 2 then
      filled = filled + 1
      answer[filled] = unit.wait
    end
  end
  return place
end
