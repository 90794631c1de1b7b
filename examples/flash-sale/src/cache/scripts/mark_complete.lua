-- Marks the cache as complete after a rebuild and updates the stock, unless a newer version is known.
-- KEYS: stock, reservations, orders, traces. ARGV: left, version.
local version = redis.call('HGET', KEYS[1], 'version')
if not version or tonumber(version) < tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], 'left', ARGV[1], 'version', ARGV[2])
end
redis.call('HSET', KEYS[1], 'complete', '1')
