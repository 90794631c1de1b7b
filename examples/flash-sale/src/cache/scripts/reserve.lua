-- Reserves an item for an order, or returns the reason why the purchase is blocked.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order, 1 if the database has no such order or else 0, now.
local buyer, order, confirmed_unknown = ARGV[1], ARGV[2], ARGV[3]
local left, complete = unpack(redis.call('HMGET', KEYS[1], 'left', 'complete'))
if not complete then
  return { 'incomplete' }
end
local since = redis.call('HGET', KEYS[2], order)
if since == '!' then
  return { 'expiring' }
end
if since then
  if since ~= '-' then
    redis.call('HSET', KEYS[2], order, ARGV[4])
  end
  return { 'existing' }
end
-- The same checks as in lookup.lua.
local known_order = redis.call('HGET', KEYS[3], buyer)
if known_order and redis.call('HEXISTS', KEYS[2], known_order) == 1 then
  return { 'has reservation', known_order }
end
if known_order or (confirmed_unknown == '0' and redis.call('HEXISTS', KEYS[4], order) == 1) then
  return { 'check database', known_order or nil }
end
if tonumber(left) <= redis.call('HLEN', KEYS[2]) then
  return { 'sold out' }
end
redis.call('HSET', KEYS[2], order, ARGV[4])
redis.call('HSET', KEYS[3], buyer, order)
return { 'new' }
