-- Begins to release a stale reservation. Reservations that are queued (-) or expiring (!) are not numbers.
-- KEYS: stock, reservations, orders, traces. ARGV: order, latest time of a stale reservation.
local since = tonumber(redis.call('HGET', KEYS[2], ARGV[1]))
if since and since <= tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[2], ARGV[1], '!')
  return 1
end
return 0
