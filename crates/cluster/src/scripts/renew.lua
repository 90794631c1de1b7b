-- Lengthens the life of permits that are still there.
--
-- KEYS     keys of permits
-- ARGV[1]  as for take
-- ARGV[2]  per holder: the key, the time to live in microseconds, the id, how many permits
-- Answers  the moment, then per holder 1 if it was still there and 0 if not
local KEYS, ARGV, call, attempt, read = KEYS, ARGV, redis.call, redis.pcall, struct.unpack
--!include moment
local holders, place, answer = ARGV[2], 1, { now }
while place <= #holders do
  local key, life, holder
  key, life, holder, place = read('<I4I7c23', holders, place)
  key = KEYS[key]
  local expiry, renewed = now + life, 0
  local until_now = attempt('ZSCORE', key, holder)
  if type(until_now) == 'string' and tonumber(until_now) > now then
    renewed = 1
    if expiry > tonumber(until_now) then
      call('ZADD', key, expiry, holder)
      call('PEXPIREAT', key, (expiry + (-expiry) % 1000) / 1000 + 1767225600000, 'GT')
    end
  end
  answer[#answer + 1] = renewed
end
return answer
