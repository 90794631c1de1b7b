-- Records that the order is in the queue: its reservation, if it still exists, does not become stale any more.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order.
local buyer, order = ARGV[1], ARGV[2]
local since = redis.call('HGET', KEYS[2], order)
if since == '!' then
  return 'expiring'
end
if since then
  redis.call('HSET', KEYS[2], order, '-')
  return 'kept'
end
-- The consumer has already placed the order.
if redis.call('HGET', KEYS[3], buyer) == order then
  return 'kept'
end
return 'gone'
