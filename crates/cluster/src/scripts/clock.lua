-- Current time in microseconds since 2026-01-01; earlier times count as zero.
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2] - 1767225600000000
else
  now = tonumber(now)
end
if now < 0 then now = 0 end
