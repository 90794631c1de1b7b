-- Ends what was taken before: settles it to what it really cost, and gives permits back.
--
-- KEYS     as for take
-- ARGV[1]  as for take
-- ARGV[2]  how many units' keys there are, then the units: key, set of limits (an index into ARGV), what was
--          taken, when (0 if nobody knows), what it really cost; where the set has second keys, the first of them; where it has
--          permits, their id
-- ARGV[n]  a set of limits
-- Answers  the moment, how many foreign values were replaced, then per unit 1 if its permits were still
--          there and 0 if not
local KEYS, ARGV, call, read, write, byte = KEYS, ARGV, redis.call, struct.unpack, struct.pack, string.byte
--!include moment
local units = ARGV[2]
local count, place = read('<I4', units)
--!include values
local healed = 0
local answer, filled = { now, 0 }, 2
local flush
--!include states

local settle = general()
local size = #units
while place <= size do place = settle(place) end
flush()
answer[2] = healed
return answer
