-- Items of a request, read in place, because a table for each would cost more than all the
-- rest. The values of an item come one after the other, and those of its deliveries after them
-- (`messages.py` says which they are).

--: The request, and up to where it has been read.
local data, offset
--: By name: runs that have another plan by now.
local replanned

local function begin_request(request)
  data, offset, replanned = request, 0, {}
end

-- Exports. Everything else stays local to this block.
local standing, next_delivery, each_of, skip_deliveries, load_with_target, runs_of

do

--: Parts of requests that are the same from call to call, by their packed form. At so many, all are
-- forgotten.
local STANDING_MAX = 1000
local known, known_count = {}, 0

-- Such a part, unpacked. Of a list, `part[value]` says whether a value is in it.
function standing(packed)
  local part = known[packed]
  if not part then
    if known_count >= STANDING_MAX then known, known_count = {}, 0 end
    part = unpack_row(packed)
    for i = 1, #part do part[part[i]] = true end
    known[packed], known_count = part, known_count + 1
  end
  return part
end

-- The values of the next delivery.
function next_delivery()
  local after, DELIVERY = unpack_limit(data, DELIVERY_VALUES, offset)
  offset = after
  return DELIVERY
end

-- The same of deliveries that came as tables.
function each_of(deliveries)
  local at = 0
  return function()
    at = at + 1
    return unpack(deliveries[at], 1, DELIVERY_VALUES)
  end
end

function skip_deliveries(count)
  for _ = 1, count do offset = unpack_limit(data, DELIVERY_VALUES, offset) end
end

-- A token with its run, and whether its only target has a token already, in one command.
function load_with_target(name, node, scope)
  if runs[name] ~= nil then return load_token(name, node, scope) end
  local _, DELIVERY = unpack_limit(data, DELIVERY_AT_SCOPE, offset)
  local key, to = RUN .. name, delivery.node .. '\0' .. delivery.scope
  local field = F_TOKEN .. node .. '\0' .. scope
  local found = call('HMGET', key, F_RUN, field, F_TOKEN .. to)
  local run = found[1] and parse_run(name, key, found[1])
  runs[name] = run
  if not run then return false, false end
  if not found[3] then tokens[name .. '\0' .. to] = false end
  local member = name .. '\0' .. node .. '\0' .. scope
  return keep_token(run, node, scope, member, field, found[2]), run
end

-- The runs that the items of these numbers are about, without judging them.
function runs_of(wanted, count)
  local names = {}
  for i = 1, count do
    local after, ITEM = unpack_limit(data, ITEM_VALUES, offset)
    offset = after
    skip_deliveries(item.deliveries)
    if wanted[i] then names[item.run] = true end
  end
  return names
end

end
