-- Settles earlier charges to their actual cost and releases permits.
--
-- KEYS     as in acquire.lua
-- ARGV[1]  as in acquire.lua
-- ARGV[2]  number of check keys, then the checks: key, limit set (an index into ARGV), charged cost, time of
--          the charge (0 if unknown), actual cost; if the set has secondary keys, the index of the first; if it
--          has permits, their id
-- ARGV[n]  a limit set
-- Returns  time, number of foreign values replaced, then per check 1 if its permits were still held, else 0
local KEYS, ARGV, call, read, write, byte = KEYS, ARGV, redis.call, struct.unpack, struct.pack, string.byte
--!include clock
local checks = ARGV[2]
local count, offset = read('<I4', checks)
--!include values
local replaced = 0
local reply, reply_len = { now, 0 }, 2
local flush
--!include states

local settle = general()
local size = #checks
while offset <= size do offset = settle(offset) end
flush()
reply[2] = replaced
return reply
