-- Items of a request, read in place, because a table for each would cost more than all the
-- rest. An item is fifteen values, one after the other: kind, run, node, scope, lease, nine that the
-- kind needs, and how many deliveries follow, with ten values each (`request.py` writes them).

local ITEM = 15

--: The request, and up to where it has been read.
local data, offset
--: By name: runs that have another plan by now.
local replanned

local function begin_request(request)
  data, offset, replanned = request, 0, {}
end

-- Exports. Everything else stays local to this block.
local next_delivery, each_of, skip_deliveries, load_with_target, runs_of

do

local DELIVERY = 10

-- The values of the next delivery: what `joins.lua` makes of it, and its form in an event.
function next_delivery()
  local node, scope, live, need, total, queue, reads, withdraws, window, fragment
  offset, node, scope, live, need, total, queue, reads, withdraws, window, fragment =
    unpack_limit(data, DELIVERY, offset)
  return node, scope, live, need, total, queue, reads, withdraws, window, fragment
end

-- The same of deliveries that came as tables.
function each_of(deliveries)
  local at = 0
  return function()
    at = at + 1
    return unpack(deliveries[at], 1, DELIVERY)
  end
end

function skip_deliveries(count)
  for _ = 1, count do offset = unpack_limit(data, DELIVERY, offset) end
end

-- A token with its run, and whether its only target has a token already, in one command.
function load_with_target(name, node, scope)
  if runs[name] ~= nil then return load_token(name, node, scope) end
  local _, to, to_scope = unpack_limit(data, 2, offset)
  local found = call('HMGET', RUN .. name, F_RUN, F_TOKEN .. node .. '\0' .. scope,
    F_TOKEN .. to .. '\0' .. to_scope)
  local run = found[1] and parse_run(name, found[1])
  runs[name] = run
  if not run then return false, false end
  if not found[3] then tokens[name .. '\0' .. to .. '\0' .. to_scope] = false end
  return keep_token(run, node, scope, name .. '\0' .. node .. '\0' .. scope, found[2]), run
end

-- The runs that the items of these numbers are about, without judging them.
function runs_of(wanted, count)
  local names = {}
  for i = 1, count do
    local _, name, deliveries
    offset, _, name, _, _, _, _, _, _, _, _, _, _, _, _, deliveries =
      unpack_limit(data, ITEM, offset)
    skip_deliveries(deliveries)
    if wanted[i] then names[name] = true end
  end
  return names
end

end
