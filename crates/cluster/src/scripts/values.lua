-- Values of the check keys; false if a key is missing or not a string.
local values = {}
if count > 0 and count <= 4000 then
  values = call('MGET', unpack(KEYS, 1, count))
else
  for first = 1, count, 4000 do
    local last = math.min(first + 3999, count)
    for at, value in ipairs(call('MGET', unpack(KEYS, first, last))) do values[first + at - 1] = value end
  end
end
