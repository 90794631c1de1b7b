-- Forgets everything but this stock.
-- KEYS: stock, reservations, orders, traces. ARGV: left, version.
redis.call('DEL', unpack(KEYS))
redis.call('HSET', KEYS[1], 'left', ARGV[1], 'version', ARGV[2], 'whole', '1')
