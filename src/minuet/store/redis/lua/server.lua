-- What the server gives to functions, and what they make of it.

--: As many values as one command is given.
local PORTION = 2000

local TERMINAL, LIVE = L_TERMINAL, L_LIVE

--: How runs are undone: functions that several parts share.
local undo = {}

--: The same of dead letters and repairs.
local repairs = {}

--: The results of items, as bytes of the answer.
local CODES = L_CODES

--: Known to functions, but only once the server has loaded them.
local call, pack, unpack_row, unpack_limit, struct_pack, struct_unpack
local concat, find, format, sub

local function use_server()
  if call then return end
  call = redis.call
  pack, unpack_row, unpack_limit = cmsgpack.pack, cmsgpack.unpack, cmsgpack.unpack_limit
  struct_pack, struct_unpack = struct.pack, struct.unpack
  concat, find, format, sub = table.concat, string.find, string.format, string.sub
end

--: The time of this step, in milliseconds.
local now

local function clock(given)
  if given then return given end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The server takes its collation from its environment, and `<` follows it.
local bytewise = not ('a' < 'B')

local function precedes(a, b)
  if bytewise then return a < b end
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Values of many fields, in portions.
local function get_fields(key, fields)
  local found = {}
  for first = 1, #fields, PORTION do
    local last = math.min(first + PORTION - 1, #fields)
    local values = call('HMGET', key, unpack(fields, first, last))
    for i = 1, #values do found[first + i - 1] = values[i] end
  end
  return found
end
