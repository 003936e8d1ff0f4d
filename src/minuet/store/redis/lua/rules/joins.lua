-- Deliveries, and the joins that some of them arrive at.

-- Exports. Everything else stays local to this block.
local deliver_all

do

-- A join has fired: what only leads to it is no longer wanted. There may be such tokens even when all
-- have arrived, behind a join on the way that did not wait for them.
local function withdraw(run, DELIVERY)
  local nodes, scope = {}, delivery.scope
  for _, node in ipairs(delivery.withdraws) do nodes[node] = true end
  for _, token in ipairs(tokens_in(run, LIVE)) do
    if nodes[token[T_NODE]] and sub(token[T_SCOPE], 1, #scope) == scope then
      end_token(run, token, 'dead', 'superseded')
      withdrawn = withdrawn or {}
      withdrawn[#withdrawn + 1] = place(token[T_NODE], token[T_SCOPE])
    end
  end
  if withdrawn and run[R_CHILDREN] then leave_unreported(run) end
end

-- Count an arrival at a join, once per source; fire the join when it is due. Items are counted as
-- often as they settle: nothing else could make one arrive twice.
local function arrive(run, hop, source, source_scope, event, DELIVERY)
  local counted, live, need = delivery.window > 0, delivery.live, delivery.need
  local name = delivery.node .. '\0' .. delivery.scope
  local member = run[R_NAME] .. '\0' .. name
  local join, known = find_join(run, name, member, source)
  if known then return false end
  join = join or new_join{ need = need, total = delivery.total, pending = {} }
  join[J_RUN], join[J_NAME], joins[member] = run, name, join
  if not counted then
    need = join[J_NEED]
    arrivals[member .. '\0' .. source] = true
    put(run, F_ARRIVAL .. name .. '\0' .. source,
      pack_arrival{ source_scope = source_scope, live = live, late = join[J_FIRED] })
  end
  if live then
    join[J_LIVE], join[J_HOP] = join[J_LIVE] + 1, math.max(join[J_HOP], hop)
    if not counted and not join[J_FIRED] then
      local pending = join[J_PENDING]
      pending[#pending + 1] =
        new_listed{ source = source, source_scope = source_scope, event = event }
    end
  else
    join[J_SKIPPED] = join[J_SKIPPED] + 1
  end
  local arrived = join[J_LIVE] + join[J_SKIPPED]
  if not join[J_FIRED] and (join[J_LIVE] >= need or arrived >= join[J_TOTAL]) then
    join[J_FIRED] = true
    delivery.live = join[J_LIVE] > 0
    emit(run, join[J_HOP], '', nil, 0, true, DELIVERY)
    if delivery.withdraws then withdraw(run, DELIVERY) end
  end
  return true
end

-- Make the next item ready after one has arrived; its scope. Nil: there is none, or the join has fired.
local function issue_next(run, item, DELIVERY)
  local scope = delivery.scope
  local join = joins[run[R_NAME] .. '\0' .. delivery.node .. '\0' .. scope]
  -- One of the arrivals is that of the list.
  local number = delivery.window + join[J_LIVE] + join[J_SKIPPED] - 2
  if join[J_FIRED] or number >= join[J_TOTAL] - 1 then return nil end
  local digits = format('%d', number)
  -- As `minuet.scopes.encode` writes a number.
  local next_scope = scope .. string.char(96 + #digits) .. digits
  issue(run, item, next_scope)
  return next_scope
end

-- Send deliveries from one source instance; return those sent, in the form of an event. Each
-- call of `read` gives the next of them. `event` is the number of the event that holds the source's
-- output. What was withdrawn is in `withdrawn`.
function deliver_all(run, source, source_scope, event, hop, count, read)
  -- Room for one: most nodes have one way on.
  local sent = { nil }
  withdrawn = nil
  for _ = 1, count do
    local DELIVERY = read()
    local new
    if delivery.total <= 1 then
      new = emit(run, hop, source, source_scope, event, nil, DELIVERY)
    else
      new = arrive(run, hop, source, source_scope, event, DELIVERY)
    end
    if new then
      sent[#sent + 1] = delivery.fragment
      if delivery.window > 0 then
        local item = tokens[run[R_NAME] .. '\0' .. source .. '\0' .. source_scope]
        local issued = issue_next(run, item, DELIVERY)
        if issued then sent[#sent + 1] = issued_fragment(source, issued) end
      end
    end
  end
  return sent
end

end
