-- Extends the TTL of permits that are still held.
--
-- KEYS     permit keys
-- ARGV[1]  as in acquire.lua
-- ARGV[2]  per holder: key, TTL in microseconds, id, number of permits
-- Returns  time, then per holder 1 if it was still registered, else 0
local KEYS, ARGV, call, attempt, read = KEYS, ARGV, redis.call, redis.pcall, struct.unpack
--!include clock
local holders, offset, reply = ARGV[2], 1, { now }
while offset <= #holders do
  local key, ttl, holder
  key, ttl, holder, offset = read('<I4I7c23', holders, offset)
  key = KEYS[key]
  local expiry, renewed = now + ttl, 0
  local current_expiry = attempt('ZSCORE', key, holder)
  if type(current_expiry) == 'string' and tonumber(current_expiry) > now then
    renewed = 1
    if expiry > tonumber(current_expiry) then
      call('ZADD', key, expiry, holder)
      call('PEXPIREAT', key, (expiry + (-expiry) % 1000) / 1000 + 1767225600000, 'GT')
    end
  end
  reply[#reply + 1] = renewed
end
return reply
