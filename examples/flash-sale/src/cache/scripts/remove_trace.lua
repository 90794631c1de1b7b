-- Removes one trace of an order.
-- KEYS: stock, reservations, orders, traces. ARGV: order.
if redis.call('HINCRBY', KEYS[4], ARGV[1], -1) <= 0 then
  redis.call('HDEL', KEYS[4], ARGV[1])
end
