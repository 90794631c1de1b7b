-- Whole sixteenths that cover so many: x / 16, rounded up.
local function sixteenth(x)
  local over = x % 16
  if over > 0 then return (x - over) / 16 + 1 end
  return x / 16
end

-- a * b to the last bit: the nearest number, and what it lacks (Dekker's product).
local function product(a, b)
  local p = a * b
  local t = 134217729 * a
  local a_high = t - (t - a)
  local a_low = a - a_high
  t = 134217729 * b
  local b_high = t - (t - b)
  local b_low = b - b_high
  return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
end

-- a * b / c rounded down, and the remainder; exact for whole numbers below 2^53 with c and the quotient
-- below 2^52.
local function portion(a, b, c)
  local whole = a * b
  if whole <= 9007199254740992 then
    local over = whole % c
    return (whole - over) / c, over
  end
  local quotient = floor(whole / c)
  local high, low = product(a, b)
  local less_high, less_low = product(quotient, c)
  local over = (high - less_high) + (low - less_low)
  while over < 0 do quotient, over = quotient - 1, over + c end
  while over >= c do quotient, over = quotient + 1, over - c end
  return quotient, over
end

-- The same, rounded up.
local function portion_up(a, b, c)
  local quotient, over = portion(a, b, c)
  if over > 0 then return quotient + 1 end
  return quotient
end
