-- Deletes everything and sets the stock of a new sale.
-- KEYS: stock, reservations, orders, traces. ARGV: left, version.
redis.call('DEL', unpack(KEYS))
redis.call('HSET', KEYS[1], 'left', ARGV[1], 'version', ARGV[2], 'complete', '1')
