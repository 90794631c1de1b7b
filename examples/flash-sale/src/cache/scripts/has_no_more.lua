-- The order that a buyer seemed to have does not live, unless it has been reserved since.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order.
if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[2] and redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
end
