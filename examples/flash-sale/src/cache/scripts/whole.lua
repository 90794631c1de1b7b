-- Everything has been told: notes the stock, unless a newer one is known, and that buyers are let through.
-- KEYS: stock, reservations, orders, traces. ARGV: left, version.
local version = redis.call('HGET', KEYS[1], 'version')
if not version or tonumber(version) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'left', ARGV[1], 'version', ARGV[2])
end
redis.call('HSET', KEYS[1], 'whole', '1')
