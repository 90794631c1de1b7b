-- Begins to give back a reservation that is older than this. What is in the queue, or ends already, is no number.
-- KEYS: stock, reservations, orders, traces. ARGV: order, the moment.
local since = tonumber(redis.call('HGET', KEYS[2], ARGV[1]))
if since and since <= tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[2], ARGV[1], '!')
  return 1
end
return 0
