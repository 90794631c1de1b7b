-- Forgets everything but this stock.
-- KEYS: stock, reservations, orders. ARGV: left, version.
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'left', ARGV[1], 'version', ARGV[2])
