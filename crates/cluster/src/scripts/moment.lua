-- Microseconds since the first moment of 2026; a clock before that stands at it.
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2] - 1767225600000000
else
  now = tonumber(now)
end
if now < 0 then now = 0 end
