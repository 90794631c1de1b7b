-- Leases: grants slices of a limit to nodes. `lease/model.rs` is the specification; both agree exactly.
--
-- KEYS[i]      lease state of one key
-- ARGV[1]      time in microseconds, or '' for the server's clock
-- ARGV[1 + i]  request for KEYS[i], fields separated by spaces:
--                lease duration, number of limits, each limit as `b interval burst` or `w limit cell cells`,
--                node epoch sequence spent holding want charge,
--                number of runs, each as `cost count`
--
-- Returns for each key, separated by spaces: `stale`, or
--   retained granted available reset replaced, then for each run `admitted wait`
--
-- Stored state, separated by spaces:
--   l1 last, for each limit `b debt` or `w n` and n times `cell count`,
--   number of records, each as `node epoch sequence spent outstanding expires`
--
-- Commands: GET, SET, DEL, TIME. All numbers are integers below 2^53.

local TICKS_PER_MICRO = 16000
local MAX_NODES = 256
local MIN_SLICE = 4
local SPENT_MODULUS = 2 ^ 50

local min, max, format = math.min, math.max, string.format

-- Integer division without rounding errors.
local function quotient(a, b)
  return (a - a % b) / b
end

local function split_words(text)
  local words, n = {}, 0
  for word in string.gmatch(text, '%S+') do
    n = n + 1
    words[n] = word
  end
  return words
end

-- Decodes a request with its limits.
local function decode_request(text)
  local words, pos = split_words(text), 2
  local request = { duration = tonumber(words[1]), limits = {}, runs = {} }
  for i = 1, tonumber(words[2]) do
    if words[pos + 1] == 'b' then
      local interval, burst = tonumber(words[pos + 2]), tonumber(words[pos + 3])
      request.limits[i] = { bucket = true, interval = interval, capacity = burst, tolerance = interval * burst }
      pos = pos + 3
    else
      request.limits[i] = { capacity = tonumber(words[pos + 2]), cell = tonumber(words[pos + 3]), cells = tonumber(words[pos + 4]) }
      pos = pos + 4
    end
  end
  request.account = {
    node = words[pos + 1],
    epoch = tonumber(words[pos + 2]),
    sequence = tonumber(words[pos + 3]),
    spent = tonumber(words[pos + 4]),
    holding = tonumber(words[pos + 5]),
    want = tonumber(words[pos + 6]),
    charge = tonumber(words[pos + 7]),
  }
  pos = pos + 7
  for i = 1, tonumber(words[pos + 1]) do
    request.runs[i] = { cost = tonumber(words[pos + 2]), count = tonumber(words[pos + 3]) }
    pos = pos + 2
  end
  return request
end

-- Decodes a stored state. Returns nil if it is not a state of these limits.
local function decode_state(text, limits)
  local words, pos = split_words(text), 2
  if words[1] ~= 'l1' then return nil end
  local state = { last = tonumber(words[2]), balances = {}, records = {}, outstanding = 0 }
  if not state.last then return nil end
  for i, limit in ipairs(limits) do
    if limit.bucket then
      local debt = tonumber(words[pos + 2])
      if words[pos + 1] ~= 'b' or not debt then return nil end
      state.balances[i] = { debt = debt }
      pos = pos + 2
    else
      local n = tonumber(words[pos + 2])
      if words[pos + 1] ~= 'w' or not n or n > 1024 then return nil end
      local balance = { used = 0, cells = {}, counts = {} }
      pos = pos + 2
      for j = 1, n do
        local cell, count = tonumber(words[pos + 1]), tonumber(words[pos + 2])
        if not cell or not count then return nil end
        balance.cells[j], balance.counts[j] = cell, count
        balance.used = balance.used + count
        pos = pos + 2
      end
      state.balances[i] = balance
    end
  end
  local n = tonumber(words[pos + 1])
  if not n or n > MAX_NODES then return nil end
  pos = pos + 1
  for i = 1, n do
    local record = {
      node = words[pos + 1],
      epoch = tonumber(words[pos + 2]),
      sequence = tonumber(words[pos + 3]),
      spent = tonumber(words[pos + 4]),
      outstanding = tonumber(words[pos + 5]),
      expires = tonumber(words[pos + 6]),
    }
    if not (record.epoch and record.sequence and record.spent and record.outstanding and record.expires) then return nil end
    state.records[i] = record
    state.outstanding = state.outstanding + record.outstanding
    pos = pos + 6
  end
  if words[pos + 1] then return nil end
  return state
end

local function fresh(limits)
  local state = { last = 0, balances = {}, records = {}, outstanding = 0 }
  for i, limit in ipairs(limits) do
    state.balances[i] = limit.bucket and { debt = 0 } or { used = 0, cells = {}, counts = {} }
  end
  return state
end

local function encode_state(state, limits)
  local words = { 'l1', format('%.0f', state.last) }
  local n = 2
  local function put(number)
    n = n + 1
    words[n] = format('%.0f', number)
  end
  for i, limit in ipairs(limits) do
    local balance = state.balances[i]
    n = n + 1
    if limit.bucket then
      words[n] = 'b'
      put(balance.debt)
    else
      words[n] = 'w'
      put(#balance.cells)
      for j = 1, #balance.cells do
        put(balance.cells[j])
        put(balance.counts[j])
      end
    end
  end
  put(#state.records)
  for _, record in ipairs(state.records) do
    n = n + 1
    words[n] = record.node
    put(record.epoch)
    put(record.sequence)
    put(record.spent)
    put(record.outstanding)
    put(record.expires)
  end
  return table.concat(words, ' ')
end

-- Maximum debt in ticks: three days, or two full buckets. A larger sum would be rounded.
local function max_debt(limit)
  return max(2 * limit.tolerance, 4503599627370496)
end

-- Ticks that these tokens take, capped at the maximum debt.
local function span(limit, tokens)
  return min(tokens * limit.interval, max_debt(limit))
end

local function advance_to(state, limits, now)
  for i, limit in ipairs(limits) do
    local balance = state.balances[i]
    if limit.bucket then
      balance.debt = max(balance.debt - (now - state.last) * TICKS_PER_MICRO, span(limit, state.outstanding))
    else
      local expired = 0
      while expired < #balance.cells and (balance.cells[expired + 1] + limit.cells + 1) * limit.cell <= now do
        expired = expired + 1
        balance.used = balance.used - balance.counts[expired]
      end
      if expired > 0 then
        local cells, counts = {}, {}
        for j = expired + 1, #balance.cells do
          cells[j - expired], counts[j - expired] = balance.cells[j], balance.counts[j]
        end
        balance.cells, balance.counts = cells, counts
      end
    end
  end
  state.last = now
end

local function available(state, limits)
  local available_now
  for i, limit in ipairs(limits) do
    local balance, headroom = state.balances[i], nil
    if limit.bucket then
      headroom = quotient(max(limit.tolerance - balance.debt, 0), limit.interval)
    else
      headroom = max(limit.capacity - balance.used - state.outstanding, 0)
    end
    available_now = available_now and min(available_now, headroom) or headroom
  end
  return available_now
end

-- Charges granted tokens. Buckets count grants; windows count only spending.
local function grant(state, limits, amount)
  for i, limit in ipairs(limits) do
    if limit.bucket then
      local balance = state.balances[i]
      -- The debt may exceed the maximum if the rule had other parameters; it is not reduced.
      balance.debt = max(balance.debt, min(balance.debt + span(limit, amount), max_debt(limit)))
    end
  end
end

local function take_back(state, limits, amount)
  for i, limit in ipairs(limits) do
    if limit.bucket then
      local balance = state.balances[i]
      balance.debt = max(balance.debt - span(limit, amount), 0)
    end
  end
end

local function spend(state, limits, now, amount)
  if amount <= 0 then return end
  for i, limit in ipairs(limits) do
    if not limit.bucket then
      local balance, current = state.balances[i], quotient(now, limit.cell)
      local newest, max_count = #balance.cells, 2 * limit.capacity
      if newest > 0 and balance.cells[newest] == current then
        local count = max(balance.counts[newest], min(balance.counts[newest] + min(amount, max_count), max_count))
        balance.used = balance.used + count - balance.counts[newest]
        balance.counts[newest] = count
      else
        local count = min(amount, max_count)
        balance.cells[newest + 1], balance.counts[newest + 1] = current, count
        balance.used = balance.used + count
      end
    end
  end
end

local function by_expiry(a, b)
  return a.expires < b.expires
end

-- Advances time. A lease that expired meanwhile counts as spent at its expiry.
local function advance(state, limits, now)
  now = max(now, state.last)
  local records = state.records
  table.sort(records, by_expiry)
  local expired = 0
  while records[expired + 1] and records[expired + 1].expires <= now do
    expired = expired + 1
    local record = records[expired]
    advance_to(state, limits, record.expires)
    state.outstanding = state.outstanding - record.outstanding
    spend(state, limits, record.expires, record.outstanding)
  end
  if expired > 0 then
    state.records = {}
    for i = expired + 1, #records do
      state.records[i - expired] = records[i]
    end
  end
  advance_to(state, limits, now)
end

local function open_record(state, limits, record, account)
  if record and record.epoch == account.epoch then return record end
  if record then
    state.outstanding = state.outstanding - record.outstanding
    spend(state, limits, state.last, record.outstanding)
  elseif #state.records >= MAX_NODES then
    return nil
  else
    record = { node = account.node }
    state.records[#state.records + 1] = record
  end
  record.epoch, record.sequence, record.spent, record.outstanding = account.epoch, account.sequence, account.spent, 0
  return record
end

local function lend(state, limits, record, amount)
  record.outstanding = record.outstanding + amount
  state.outstanding = state.outstanding + amount
  grant(state, limits, amount)
end

local function settle_account(state, limits, record, account)
  local newly_spent = (account.spent - record.spent) % SPENT_MODULUS
  local covered = min(newly_spent, record.outstanding)
  local unspent = record.outstanding - covered
  local retained = min(unspent, account.holding)
  state.outstanding = state.outstanding - record.outstanding + retained
  record.sequence, record.spent, record.outstanding = account.sequence, account.spent, retained
  take_back(state, limits, unspent - retained)
  spend(state, limits, state.last, newly_spent)
  grant(state, limits, newly_spent - covered)
  local adopted = min(account.holding - retained, available(state, limits))
  lend(state, limits, record, adopted)
  return retained + adopted
end

local function wait_for(state, limits, cost)
  local max_wait = 0
  for i, limit in ipairs(limits) do
    local balance, wait = state.balances[i], 0
    if limit.bucket then
      local over = balance.debt + span(limit, cost) - limit.tolerance
      if over > 0 then wait = quotient(over + 15, 16) end
    else
      local over = balance.used + state.outstanding + cost - limit.capacity
      if over > 0 then
        local last = quotient(state.last, limit.cell)
        for j = 1, #balance.cells do
          over = over - balance.counts[j]
          if over <= 0 then
            last = balance.cells[j]
            break
          end
        end
        wait = ((last + limit.cells + 1) * limit.cell - state.last) * 1000
      end
    end
    max_wait = max(max_wait, wait)
  end
  return max_wait
end

local function take(state, limits, run)
  local admitted = run.count
  if run.cost > 0 then admitted = min(run.count, quotient(available(state, limits), run.cost)) end
  grant(state, limits, admitted * run.cost)
  spend(state, limits, state.last, admitted * run.cost)
  return admitted, admitted < run.count and wait_for(state, limits, run.cost) or 0
end

local function grant_slice(state, limits, record, want)
  local capacity
  for _, limit in ipairs(limits) do
    capacity = capacity and min(capacity, limit.capacity) or limit.capacity
  end
  local half = quotient(capacity, 2)
  local leasable = max(half - (state.outstanding - record.outstanding), 0)
  local max_slice = min(max(quotient(half, #state.records), quotient(leasable, 2)), leasable)
  if max_slice < MIN_SLICE then max_slice = 0 end
  local granted = min(want, max(max_slice - record.outstanding, 0), available(state, limits))
  lend(state, limits, record, granted)
  return granted
end

local function full_at(state, limits)
  local leases = {}
  for _, record in ipairs(state.records) do
    if record.outstanding > 0 then leases[#leases + 1] = record end
  end
  table.sort(leases, by_expiry)
  local full = state.last
  for i, limit in ipairs(limits) do
    local balance = state.balances[i]
    if limit.bucket then
      local time, debt, outstanding = state.last, balance.debt, state.outstanding
      for _, record in ipairs(leases) do
        debt = max(debt - (record.expires - time) * TICKS_PER_MICRO, span(limit, outstanding))
        time, outstanding = record.expires, outstanding - record.outstanding
      end
      full = max(full, time + quotient(debt + TICKS_PER_MICRO - 1, TICKS_PER_MICRO))
    else
      local newest = balance.cells[#balance.cells] or -1
      if #leases > 0 then newest = max(newest, quotient(leases[#leases].expires, limit.cell)) end
      if newest >= 0 then full = max(full, (newest + limit.cells + 1) * limit.cell) end
    end
  end
  return full
end

local function apply(state, request, now, replaced)
  local limits, account = request.limits, request.account
  advance(state, limits, now)
  local record, retained, granted = nil, 0, 0
  for _, known in ipairs(state.records) do
    if known.node == account.node then record = known end
  end
  if record and (account.epoch < record.epoch or (account.epoch == record.epoch and account.sequence <= record.sequence)) then
    return 'stale'
  end
  record = open_record(state, limits, record, account)
  if record then
    retained = settle_account(state, limits, record, account)
    record.expires = state.last + request.duration
  end
  grant(state, limits, account.charge)
  spend(state, limits, state.last, account.charge)
  local reply = {}
  for i, run in ipairs(request.runs) do
    reply[i] = format('%.0f %.0f', take(state, limits, run))
  end
  if record then granted = grant_slice(state, limits, record, account.want) end
  local reset = full_at(state, limits) - state.last
  local header = format('%.0f %.0f %.0f %.0f %d', retained, granted, available(state, limits), reset, replaced)
  table.insert(reply, 1, header)
  return table.concat(reply, ' '), reset
end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local replies = {}
for i, key in ipairs(KEYS) do
  local request = decode_request(ARGV[1 + i])
  local text, replaced = redis.pcall('GET', key), 0
  local state
  if type(text) == 'string' then
    state = decode_state(text, request.limits)
    replaced = state and 0 or 1
  elseif text then
    -- Not a string, or the read failed.
    replaced = 1
  end
  state = state or fresh(request.limits)
  local reply, reset = apply(state, request, now, replaced)
  replies[i] = reply
  if reset and reset > 0 then
    redis.call('SET', key, encode_state(state, request.limits), 'PX', format('%.0f', quotient(reset + 999, 1000)))
  elseif reset and text then
    redis.call('DEL', key)
  end
end
return replies
