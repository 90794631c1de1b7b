-- Updates the stock, unless a newer version is known, and records an order of the database.
-- KEYS: stock, reservations, orders, traces. ARGV: left, version; optional: buyer, order, 1 if the order is live or 0.
local version = redis.call('HGET', KEYS[1], 'version')
if not version or tonumber(version) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'left', ARGV[1], 'version', ARGV[2])
end
local buyer, order, is_live = ARGV[3], ARGV[4], ARGV[5]
if order then
  redis.call('HDEL', KEYS[2], order)
  redis.call('HINCRBY', KEYS[4], order, 1)
  if is_live == '1' then
    redis.call('HSET', KEYS[3], buyer, order)
  elseif redis.call('HGET', KEYS[3], buyer) == order then
    redis.call('HDEL', KEYS[3], buyer)
  end
end
