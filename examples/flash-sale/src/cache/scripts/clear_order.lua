-- Removes a live order of a buyer that does not exist in the database, unless it has been reserved meanwhile.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order.
if redis.call('HGET', KEYS[3], ARGV[1]) == ARGV[2] and redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
end
