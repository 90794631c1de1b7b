-- Reserves an item for an order, or says why not.
-- KEYS: stock, reservations, orders, traces. ARGV: buyer, order, 1 if the database was asked about it or 0, now.
local buyer, order, asked = ARGV[1], ARGV[2], ARGV[3]
local left, whole = unpack(redis.call('HMGET', KEYS[1], 'left', 'whole'))
if not whole then
  return { 'not whole' }
end
local since = redis.call('HGET', KEYS[2], order)
if since == '!' then
  return { 'ending' }
end
if since then
  if since ~= '-' then
    redis.call('HSET', KEYS[2], order, ARGV[4])
  end
  return { 'before' }
end
-- From here on as in look.lua.
local has = redis.call('HGET', KEYS[3], buyer)
if has and redis.call('HEXISTS', KEYS[2], has) == 1 then
  return { 'has', has }
end
if has or (asked == '0' and redis.call('HEXISTS', KEYS[4], order) == 1) then
  return { 'unsure', has or nil }
end
if tonumber(left) <= redis.call('HLEN', KEYS[2]) then
  return { 'sold out' }
end
redis.call('HSET', KEYS[2], order, ARGV[4])
redis.call('HSET', KEYS[3], buyer, order)
return { 'taken' }
