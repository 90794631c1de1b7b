-- Says what can be bought at once, and leaves the order's trace; or says why nobody is let through.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order, 1 if the database was asked about it or 0.
local buyer, order, asked = ARGV[1], ARGV[2], ARGV[3]
local left, version, whole = unpack(redis.call('HMGET', KEYS[1], 'left', 'version', 'whole'))
if not whole then
  return { 'not whole' }
end
if redis.call('HEXISTS', KEYS[2], order) == 1 then
  return { 'reserved' }
end
local has = redis.call('HGET', KEYS[3], buyer)
if has and redis.call('HEXISTS', KEYS[2], has) == 1 then
  return { 'has', has }
end
if has or (asked == '0' and redis.call('HEXISTS', KEYS[4], order) == 1) then
  return { 'unsure', has or nil }
end
if tonumber(left) <= redis.call('HLEN', KEYS[2]) then
  return { 'sold out' }
end
redis.call('HINCRBY', KEYS[4], order, 1)
return { 'open', left, version }
