-- Ticks (sixteenths of a nanosecond) to nanoseconds: x / 16, rounded up.
local function ticks_to_nanos(x)
  local remainder = x % 16
  if remainder > 0 then return (x - remainder) / 16 + 1 end
  return x / 16
end

-- Exact a * b: the nearest number and the rounding error (Dekker's product).
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

-- a * b / c rounded down, and the remainder. Exact for integers below 2^53 if c and the quotient are below
-- 2^52.
local function mul_div(a, b, c)
  local product_ab = a * b
  if product_ab <= 9007199254740992 then
    local remainder = product_ab % c
    return (product_ab - remainder) / c, remainder
  end
  local quotient = floor(product_ab / c)
  local high, low = product(a, b)
  local sub_high, sub_low = product(quotient, c)
  local remainder = (high - sub_high) + (low - sub_low)
  while remainder < 0 do quotient, remainder = quotient - 1, remainder + c end
  while remainder >= c do quotient, remainder = quotient + 1, remainder - c end
  return quotient, remainder
end

-- a * b / c rounded up.
local function mul_div_up(a, b, c)
  local quotient, remainder = mul_div(a, b, c)
  if remainder > 0 then return quotient + 1 end
  return quotient
end
