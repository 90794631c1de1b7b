-- The order is surely in the queue: its reservation does not go stale any more.
-- KEYS: stock, reservations, orders. ARGV: order.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[2], ARGV[1], '-')
end
