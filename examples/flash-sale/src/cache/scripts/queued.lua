-- The order is surely in the queue: its reservation does not go stale any more, if it is still there.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order.
local buyer, order = ARGV[1], ARGV[2]
local since = redis.call('HGET', KEYS[2], order)
if since == '!' then
  return 'ending'
end
if since then
  redis.call('HSET', KEYS[2], order, '-')
  return 'kept'
end
-- The consumer was quicker.
if redis.call('HGET', KEYS[3], buyer) == order then
  return 'kept'
end
return 'gone'
