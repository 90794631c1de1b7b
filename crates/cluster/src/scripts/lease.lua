-- Slices of a limit. The specification is `lease/ledger.rs`; this restates it, number for number.
--
-- KEYS[i]      one key's ledger
-- ARGV[1]      the time in microseconds, or '' for the store's own
-- ARGV[1 + i]  what is said of KEYS[i], numbers and names divided by blanks:
--                life, number of limits, each limit as `b interval burst` or `w limit cell cells`,
--                node epoch sequence spent holding want charge,
--                number of runs, each as `cost count`
--
-- Answers for each key, divided by blanks: `stale`, or
--   kept granted free reset healed, then for each run `admitted wait`
--
-- A ledger, divided by blanks:
--   l1 last, for each limit `b debt` or `w n` and n times `cell count`,
--   number of records, each as `node epoch sequence spent out expires`
--
-- Commands: GET, SET, DEL, TIME. Every number is whole and below 2^53.

local TICKS_PER_MICRO = 16000
local MOST_NODES = 256
local SMALLEST_SLICE = 4
local SPENT_WRAPS = 2 ^ 50

local min, max, format = math.min, math.max, string.format

-- Divides whole numbers without rounding errors.
local function quotient(a, b)
  return (a - a % b) / b
end

local function words_of(text)
  local words, n = {}, 0
  for word in string.gmatch(text, '%S+') do
    n = n + 1
    words[n] = word
  end
  return words
end

-- What is said: a request with the limits it is about.
local function request_of(text)
  local words, at = words_of(text), 2
  local request = { life = tonumber(words[1]), limits = {}, runs = {} }
  for i = 1, tonumber(words[2]) do
    if words[at + 1] == 'b' then
      local interval, burst = tonumber(words[at + 2]), tonumber(words[at + 3])
      request.limits[i] = { bucket = true, interval = interval, most = burst, tolerance = interval * burst }
      at = at + 3
    else
      request.limits[i] = { most = tonumber(words[at + 2]), cell = tonumber(words[at + 3]), cells = tonumber(words[at + 4]) }
      at = at + 4
    end
  end
  request.account = {
    node = words[at + 1],
    epoch = tonumber(words[at + 2]),
    sequence = tonumber(words[at + 3]),
    spent = tonumber(words[at + 4]),
    holding = tonumber(words[at + 5]),
    want = tonumber(words[at + 6]),
    charge = tonumber(words[at + 7]),
  }
  at = at + 7
  for i = 1, tonumber(words[at + 1]) do
    request.runs[i] = { cost = tonumber(words[at + 2]), count = tonumber(words[at + 3]) }
    at = at + 2
  end
  return request
end

-- The ledger that `text` stands for, or nothing if it is not one of these limits.
local function ledger_of(text, limits)
  local words, at = words_of(text), 2
  if words[1] ~= 'l1' then return nil end
  local ledger = { last = tonumber(words[2]), tallies = {}, records = {}, out = 0 }
  if not ledger.last then return nil end
  for i, limit in ipairs(limits) do
    if limit.bucket then
      local debt = tonumber(words[at + 2])
      if words[at + 1] ~= 'b' or not debt then return nil end
      ledger.tallies[i] = { debt = debt }
      at = at + 2
    else
      local n = tonumber(words[at + 2])
      if words[at + 1] ~= 'w' or not n or n > 1024 then return nil end
      local tally = { used = 0, cells = {}, counts = {} }
      at = at + 2
      for j = 1, n do
        local cell, count = tonumber(words[at + 1]), tonumber(words[at + 2])
        if not cell or not count then return nil end
        tally.cells[j], tally.counts[j] = cell, count
        tally.used = tally.used + count
        at = at + 2
      end
      ledger.tallies[i] = tally
    end
  end
  local n = tonumber(words[at + 1])
  if not n or n > MOST_NODES then return nil end
  at = at + 1
  for i = 1, n do
    local record = {
      node = words[at + 1],
      epoch = tonumber(words[at + 2]),
      sequence = tonumber(words[at + 3]),
      spent = tonumber(words[at + 4]),
      out = tonumber(words[at + 5]),
      expires = tonumber(words[at + 6]),
    }
    if not (record.epoch and record.sequence and record.spent and record.out and record.expires) then return nil end
    ledger.records[i] = record
    ledger.out = ledger.out + record.out
    at = at + 6
  end
  if words[at + 1] then return nil end
  return ledger
end

local function fresh(limits)
  local ledger = { last = 0, tallies = {}, records = {}, out = 0 }
  for i, limit in ipairs(limits) do
    ledger.tallies[i] = limit.bucket and { debt = 0 } or { used = 0, cells = {}, counts = {} }
  end
  return ledger
end

local function text_of(ledger, limits)
  local words = { 'l1', format('%.0f', ledger.last) }
  local n = 2
  local function put(number)
    n = n + 1
    words[n] = format('%.0f', number)
  end
  for i, limit in ipairs(limits) do
    local tally = ledger.tallies[i]
    n = n + 1
    if limit.bucket then
      words[n] = 'b'
      put(tally.debt)
    else
      words[n] = 'w'
      put(#tally.cells)
      for j = 1, #tally.cells do
        put(tally.cells[j])
        put(tally.counts[j])
      end
    end
  end
  put(#ledger.records)
  for _, record in ipairs(ledger.records) do
    n = n + 1
    words[n] = record.node
    put(record.epoch)
    put(record.sequence)
    put(record.spent)
    put(record.out)
    put(record.expires)
  end
  return table.concat(words, ' ')
end

-- The most ticks that are owed: three days, or two full buckets. More could not be added up without rounding.
local function most_owed(limit)
  return max(2 * limit.tolerance, 4503599627370496)
end

-- Ticks that tokens take, never more than that.
local function span(limit, tokens)
  return min(tokens * limit.interval, most_owed(limit))
end

local function pass_to(ledger, limits, now)
  for i, limit in ipairs(limits) do
    local tally = ledger.tallies[i]
    if limit.bucket then
      tally.debt = max(tally.debt - (now - ledger.last) * TICKS_PER_MICRO, span(limit, ledger.out))
    else
      local gone = 0
      while gone < #tally.cells and (tally.cells[gone + 1] + limit.cells + 1) * limit.cell <= now do
        gone = gone + 1
        tally.used = tally.used - tally.counts[gone]
      end
      if gone > 0 then
        local cells, counts = {}, {}
        for j = gone + 1, #tally.cells do
          cells[j - gone], counts[j - gone] = tally.cells[j], tally.counts[j]
        end
        tally.cells, tally.counts = cells, counts
      end
    end
  end
  ledger.last = now
end

local function free_of(ledger, limits)
  local free
  for i, limit in ipairs(limits) do
    local tally, room = ledger.tallies[i], nil
    if limit.bucket then
      room = quotient(max(limit.tolerance - tally.debt, 0), limit.interval)
    else
      room = max(limit.most - tally.used - ledger.out, 0)
    end
    free = free and min(free, room) or room
  end
  return free
end

-- Buckets count what goes out; windows only what is spent.
local function grant(ledger, limits, amount)
  for i, limit in ipairs(limits) do
    if limit.bucket then
      local tally = ledger.tallies[i]
      -- What is owed by other numbers of the same rule may be more, and stays owed.
      tally.debt = max(tally.debt, min(tally.debt + span(limit, amount), most_owed(limit)))
    end
  end
end

local function back(ledger, limits, amount)
  for i, limit in ipairs(limits) do
    if limit.bucket then
      local tally = ledger.tallies[i]
      tally.debt = max(tally.debt - span(limit, amount), 0)
    end
  end
end

local function spend(ledger, limits, now, amount)
  if amount <= 0 then return end
  for i, limit in ipairs(limits) do
    if not limit.bucket then
      local tally, current = ledger.tallies[i], quotient(now, limit.cell)
      local newest, most = #tally.cells, 2 * limit.most
      if newest > 0 and tally.cells[newest] == current then
        local count = max(tally.counts[newest], min(tally.counts[newest] + min(amount, most), most))
        tally.used = tally.used + count - tally.counts[newest]
        tally.counts[newest] = count
      else
        local count = min(amount, most)
        tally.cells[newest + 1], tally.counts[newest + 1] = current, count
        tally.used = tally.used + count
      end
    end
  end
end

local function by_end(a, b)
  return a.expires < b.expires
end

-- Lets time pass. A lease that ended meanwhile counts as spent at the moment it ended.
local function pass(ledger, limits, now)
  now = max(now, ledger.last)
  local records = ledger.records
  table.sort(records, by_end)
  local ended = 0
  while records[ended + 1] and records[ended + 1].expires <= now do
    ended = ended + 1
    local record = records[ended]
    pass_to(ledger, limits, record.expires)
    ledger.out = ledger.out - record.out
    spend(ledger, limits, record.expires, record.out)
  end
  if ended > 0 then
    ledger.records = {}
    for i = ended + 1, #records do
      ledger.records[i - ended] = records[i]
    end
  end
  pass_to(ledger, limits, now)
end

local function open(ledger, limits, record, account)
  if record and record.epoch == account.epoch then return record end
  if record then
    ledger.out = ledger.out - record.out
    spend(ledger, limits, ledger.last, record.out)
  elseif #ledger.records >= MOST_NODES then
    return nil
  else
    record = { node = account.node }
    ledger.records[#ledger.records + 1] = record
  end
  record.epoch, record.sequence, record.spent, record.out = account.epoch, account.sequence, account.spent, 0
  return record
end

local function lend(ledger, limits, record, amount)
  record.out = record.out + amount
  ledger.out = ledger.out + amount
  grant(ledger, limits, amount)
end

local function account_for(ledger, limits, record, account)
  local newly = (account.spent - record.spent) % SPENT_WRAPS
  local covered = min(newly, record.out)
  local rest = record.out - covered
  local kept = min(rest, account.holding)
  ledger.out = ledger.out - record.out + kept
  record.sequence, record.spent, record.out = account.sequence, account.spent, kept
  back(ledger, limits, rest - kept)
  spend(ledger, limits, ledger.last, newly)
  grant(ledger, limits, newly - covered)
  local adopted = min(account.holding - kept, free_of(ledger, limits))
  lend(ledger, limits, record, adopted)
  return kept + adopted
end

local function wait_for(ledger, limits, cost)
  local longest = 0
  for i, limit in ipairs(limits) do
    local tally, wait = ledger.tallies[i], 0
    if limit.bucket then
      local over = tally.debt + span(limit, cost) - limit.tolerance
      if over > 0 then wait = quotient(over + 15, 16) end
    else
      local over = tally.used + ledger.out + cost - limit.most
      if over > 0 then
        local last = quotient(ledger.last, limit.cell)
        for j = 1, #tally.cells do
          over = over - tally.counts[j]
          if over <= 0 then
            last = tally.cells[j]
            break
          end
        end
        wait = ((last + limit.cells + 1) * limit.cell - ledger.last) * 1000
      end
    end
    longest = max(longest, wait)
  end
  return longest
end

local function take(ledger, limits, run)
  local admitted = run.count
  if run.cost > 0 then admitted = min(run.count, quotient(free_of(ledger, limits), run.cost)) end
  grant(ledger, limits, admitted * run.cost)
  spend(ledger, limits, ledger.last, admitted * run.cost)
  return admitted, admitted < run.count and wait_for(ledger, limits, run.cost) or 0
end

local function lease(ledger, limits, record, want)
  local capacity
  for _, limit in ipairs(limits) do
    capacity = capacity and min(capacity, limit.most) or limit.most
  end
  local half = quotient(capacity, 2)
  local leasable = max(half - (ledger.out - record.out), 0)
  local most = min(max(quotient(half, #ledger.records), quotient(leasable, 2)), leasable)
  if most < SMALLEST_SLICE then most = 0 end
  local granted = min(want, max(most - record.out, 0), free_of(ledger, limits))
  lend(ledger, limits, record, granted)
  return granted
end

local function full_at(ledger, limits)
  local leases = {}
  for _, record in ipairs(ledger.records) do
    if record.out > 0 then leases[#leases + 1] = record end
  end
  table.sort(leases, by_end)
  local full = ledger.last
  for i, limit in ipairs(limits) do
    local tally = ledger.tallies[i]
    if limit.bucket then
      local at, debt, out = ledger.last, tally.debt, ledger.out
      for _, record in ipairs(leases) do
        debt = max(debt - (record.expires - at) * TICKS_PER_MICRO, span(limit, out))
        at, out = record.expires, out - record.out
      end
      full = max(full, at + quotient(debt + TICKS_PER_MICRO - 1, TICKS_PER_MICRO))
    else
      local newest = tally.cells[#tally.cells] or -1
      if #leases > 0 then newest = max(newest, quotient(leases[#leases].expires, limit.cell)) end
      if newest >= 0 then full = max(full, (newest + limit.cells + 1) * limit.cell) end
    end
  end
  return full
end

local function apply(ledger, request, now, healed)
  local limits, account = request.limits, request.account
  pass(ledger, limits, now)
  local record, kept, granted = nil, 0, 0
  for _, known in ipairs(ledger.records) do
    if known.node == account.node then record = known end
  end
  if record and (account.epoch < record.epoch or (account.epoch == record.epoch and account.sequence <= record.sequence)) then
    return 'stale'
  end
  record = open(ledger, limits, record, account)
  if record then
    kept = account_for(ledger, limits, record, account)
    record.expires = ledger.last + request.life
  end
  grant(ledger, limits, account.charge)
  spend(ledger, limits, ledger.last, account.charge)
  local answer = {}
  for i, run in ipairs(request.runs) do
    answer[i] = format('%.0f %.0f', take(ledger, limits, run))
  end
  if record then granted = lease(ledger, limits, record, account.want) end
  local reset = full_at(ledger, limits) - ledger.last
  local head = format('%.0f %.0f %.0f %.0f %d', kept, granted, free_of(ledger, limits), reset, healed)
  table.insert(answer, 1, head)
  return table.concat(answer, ' '), reset
end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local answers = {}
for i, key in ipairs(KEYS) do
  local request = request_of(ARGV[1 + i])
  local text, healed = redis.pcall('GET', key), 0
  local ledger
  if type(text) == 'string' then
    ledger = ledger_of(text, request.limits)
    healed = ledger and 0 or 1
  elseif text then
    -- Not a string at all, or the store cannot be read.
    healed = 1
  end
  ledger = ledger or fresh(request.limits)
  local answer, reset = apply(ledger, request, now, healed)
  answers[i] = answer
  if reset and reset > 0 then
    redis.call('SET', key, text_of(ledger, request.limits), 'PX', format('%.0f', quotient(reset + 999, 1000)))
  elseif reset and text then
    redis.call('DEL', key)
  end
end
return answers
