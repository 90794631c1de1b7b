-- Reserves an item for an order, or says why not.
-- KEYS: stock, reservations, orders. ARGV: buyer, order, now.
local buyer, order = ARGV[1], ARGV[2]
if redis.call('HEXISTS', KEYS[2], order) == 1 then
  return { 'before' }
end
local known = redis.call('HGET', KEYS[3], buyer)
if known and (string.sub(known, 1, 1) == '1' or string.sub(known, 3) == order) then
  return { 'known', known }
end
local left = redis.call('HGET', KEYS[1], 'left')
if not left then
  return { 'empty' }
end
if tonumber(left) <= redis.call('HLEN', KEYS[2]) then
  return { 'sold out' }
end
redis.call('HSET', KEYS[2], order, ARGV[3])
redis.call('HSET', KEYS[3], buyer, '1 ' .. order)
return { 'taken' }
