-- What the store's verbs do to its rows: `store/transition.py` again, function by function, for the
-- one store where the rules must run inside the server. The conformance suite and the differential
-- test hold the two to the same letter. Nothing here writes: `commit.lua` does, at the end.

-- What this step has touched.
local changed_runs, changed_tokens = {}, {}
local joins, arrivals, doomed = {}, {}, {}
--: By zset: what leaves it and what comes into it.
local removed, added = {}, {}
--: By "tenant \0 slot": change in the number of holders; slots that may have room, in order.
local holders, freed, freed_order = {}, {}, {}
--: Tokens that were ready when they were loaded, and are touched now: the queue still shows them.
local was_ready = 0

local function leave(key, member)
  removed[key] = removed[key] or {}
  removed[key][member] = true
end

local function enter(key, member, score)
  added[key] = added[key] or {}
  added[key][member] = score
  if removed[key] then removed[key][member] = nil end
end

-- The zsets that show a token, up to three, each followed by the token's score in it.
local function places(token)
  local state, due_ms = token.state, token.due_ms
  if state == 'leased' then return LEASES, due_ms end
  if state == 'ready' then
    if token.lane == '' then return ready_key(token.tenant, token.queue), due_ms end
    local aside = aside_key(token.tenant, token.queue)
    if token.lane ~= 'slot' then return aside, due_ms end
    return aside, due_ms, waiters_key(token.tenant .. '\0' .. token.slot), due_ms
  end
  if state == 'waiting' then
    return waiting_key(token.tenant, token.wait), 0,
      waiting_key(token.tenant, token.wait, token.wait_key), 0, due_ms and TIMERS, due_ms
  end
end

-- Call it before the first change of a row.
local function change_token(token)
  if token.changed then return end
  token.changed = true
  changed_tokens[#changed_tokens + 1] = token
  if token.new then return end
  local first, _, second, _, third = places(token)
  if first then leave(first, token.member) end
  if second then leave(second, token.member) end
  if third then leave(third, token.member) end
  token.was_leased = token.state == 'leased'
  if token.state == 'ready' and token.lane == '' then was_ready = was_ready + 1 end
end

local function change_run(run)
  if run.changed then return end
  run.changed = true
  changed_runs[#changed_runs + 1] = run
  if not run.new then
    run.old_status, run.old_deadline, run.old_ended = run.status, run.deadline_ms, run.ended_ms
  end
end

local function put(run, field, value)
  local out = run.out
  out[#out + 1] = field
  out[#out + 1] = value
end

-- All tokens of a run that are in these states by now, in the order of their keys.
local function tokens_in(run, states)
  load_all_tokens(run)
  local found = {}
  for _, token in ipairs(run.tokens) do
    if states[token.state] then found[#found + 1] = token end
  end
  table.sort(found, function(a, b) return precedes(a.member, b.member) end)
  return found
end

-- Append an event, in its parts: what comes before the output, the output, and the rest. Its record
-- says when, and where in the event the output stands without the white space around it.
local function append_output(run, head, output, lead, size, rest)
  change_run(run)
  local seq, first = run.seq + 1, #head + lead
  run.seq = seq
  put(run, 'e' .. seq, in_digits(now) .. ' ' .. in_digits(first + 1) .. ' '
    .. in_digits(first + size) .. ' ' .. head .. output .. rest)
  run.outputs[seq] = size == #output and output or sub(output, lead + 1, lead + size)
  return seq
end

local function append(run, event)
  change_run(run)
  local seq = run.seq + 1
  run.seq = seq
  put(run, 'e' .. seq, in_digits(now) .. ' 0 0 ' .. event)
  run.outputs[seq] = 'null'
  return seq
end

-- ── concurrency slots ────────────────────────────────────────────────────────────────────

local function free_slot(token)
  if token.slot == '' then return end
  local slot = token.tenant .. '\0' .. token.slot
  if token.lane ~= 'slot' then
    holders[slot] = (holders[slot] or 0) - 1
    if not freed[slot] then
      freed[slot] = true
      freed_order[#freed_order + 1] = slot
    end
  end
  token.slot, token.slot_limit = '', 0
end

local function count_holders(slot)
  return tonumber(call('HGET', SLOTS, slot) or 0) + (holders[slot] or 0)
end

-- Who waits longest for a slot by now, this step's own changes included.
local function first_waiter(slot)
  local found = {}
  for _, token in ipairs(changed_tokens) do
    if token.lane == 'slot' and token.state == 'ready' and token.tenant .. '\0' .. token.slot == slot
    then
      found[#found + 1] = token
    end
  end
  local first = 0
  repeat
    local members = call('ZRANGE', waiters_key(slot), first, first + 9)
    first = first + 10
    for _, member in ipairs(members) do
      local token = load_token(parts(member))
      if token and not token.changed then
        found[#found + 1] = token
        members = {}
        break
      end
    end
  until #members < 10
  table.sort(found, function(a, b)
    if a.due_ms ~= b.due_ms then return a.due_ms < b.due_ms end
    return precedes(a.member, b.member)
  end)
  return found[1]
end

local function promote(slot)
  freed[slot] = nil
  local taken = count_holders(slot)
  while true do
    local token = first_waiter(slot)
    if not token or taken >= token.slot_limit then break end
    taken = taken + 1
    holders[slot] = (holders[slot] or 0) + 1
    change_token(token)
    token.lane = load_run(token.run).status == 'PAUSED' and 'pause' or ''
  end
end

local function promote_waiters()
  local i = 1
  while i <= #freed_order do
    if freed[freed_order[i]] then promote(freed_order[i]) end
    i = i + 1
  end
end

local function ask_slot(token, key, limit)
  if token.slot == key then return 'held' end
  change_token(token)
  free_slot(token)
  local slot = token.tenant .. '\0' .. key
  if freed[slot] then promote(slot) end
  local taken = count_holders(slot)
  token.slot, token.slot_limit = key, limit
  if taken < limit then
    holders[slot] = (holders[slot] or 0) + 1
    return 'held'
  end
  token.state, token.due_ms, token.lease, token.lane = 'ready', now, '', 'slot'
  return 'applied'
end

-- ── tokens ───────────────────────────────────────────────────────────────────────────────

local function has_token(run, node, scope, member)
  local token = tokens[member]
  if token ~= nil then return token end
  return not run.new and call('HEXISTS', run.key, 't' .. node .. '\0' .. scope) == 1
end

-- Make the target's token ready; false when the instance has one already.
local function emit(run, delivery, live, hop, source, source_scope, event, joined)
  local node, scope = delivery[1], delivery[2]
  local member = run.run .. '\0' .. node .. '\0' .. scope
  if has_token(run, node, scope, member) then return false end
  local token = {
    run = run.run, node = node, scope = scope, member = member, tenant = run.tenant, new = true,
    -- Any worker can pass a skip on, whatever it takes to run the node.
    queue = live and delivery[6] or '', state = 'ready', outcome = '', skip = not live, due_ms = now,
    hop = hop, attempt = 1, expiry = 0, delivery = 0, lease = '', session = '', taken_ms = 0,
    source = live and source or '', source_scope = live and source_scope or '',
    reads = live and delivery[7] or '', cursor = 0, wait = '', wait_key = '', event = 0,
    lane = run.status == 'PAUSED' and 'pause' or '', slot = '', slot_limit = 0,
    changed = false, was_leased = false, source_event = live and event or 0, joined = joined,
  }
  tokens[member] = token
  run.tokens[#run.tokens + 1] = token
  change_token(token)
  run.counter = run.counter + 1
  return true
end

-- A live token ends: it no longer counts.
local function end_token(run, token, state, outcome)
  change_token(token)
  token.state, token.outcome = state, outcome
  token.due_ms, token.wait, token.wait_key = nil, '', ''
  free_slot(token)
  token.lane = ''
  run.counter = run.counter - 1
end

local function make_ready(run, token, due_ms)
  change_token(token)
  token.state, token.due_ms = 'ready', due_ms
  token.wait, token.wait_key = '', ''
  free_slot(token)
  token.lane = run.status == 'PAUSED' and 'pause' or ''
end

-- A join fired without waiting: what only leads to it is no longer wanted.
local function withdraw(run, delivery, withdrawn)
  local nodes, scope = {}, delivery[2]
  for _, node in ipairs(delivery[8]) do nodes[node] = true end
  for _, token in ipairs(tokens_in(run, LIVE)) do
    if nodes[token.node] and sub(token.scope, 1, #scope) == scope then
      end_token(run, token, 'dead', 'superseded')
      withdrawn[#withdrawn + 1] = place(token.node, token.scope)
    end
  end
end

local function parse_join(data)
  local join = { pending = {} }
  join.need, join.total, join.live, join.skipped, join.fired, join.hop, join.listed =
    unpack_row(data)
  return join
end

-- Count an arrival at a join, once per source; fire the join when it is due.
local function arrive(run, delivery, source, source_scope, event, hop, withdrawn)
  local node, scope, live, need, total = unpack(delivery, 1, 5)
  local name = node .. '\0' .. scope
  local member, field = run.run .. '\0' .. name, 'a' .. name .. '\0' .. source
  local join = joins[member]
  local known = arrivals[member .. '\0' .. source]
  if not known and not run.new then
    if join then
      known = call('HEXISTS', run.key, field) == 1
    else
      local found = call('HMGET', run.key, 'j' .. name, field)
      join, known = found[1] and parse_join(found[1]), found[2]
    end
  end
  if known then return false end
  join = join or { need = need, total = total, live = 0, skipped = 0, fired = false, hop = 0,
    listed = 0, pending = {} }
  join.run, join.name, joins[member] = run, name, join
  arrivals[member .. '\0' .. source] = true
  put(run, field, pack(source_scope, live, join.fired))
  if live then
    join.live, join.hop = join.live + 1, math.max(join.hop, hop)
    if not join.fired then
      join.pending[#join.pending + 1] = { source, source_scope, event }
    end
  else
    join.skipped = join.skipped + 1
  end
  local arrived = join.live + join.skipped
  if not join.fired and (join.live >= join.need or arrived >= join.total) then
    join.fired = true
    emit(run, delivery, join.live > 0, join.hop, '', '', 0, true)
    if delivery[8] and arrived < join.total then withdraw(run, delivery, withdrawn) end
  end
  return true
end

-- Send deliveries from one source instance; say what was sent and withdrawn. `event` is the
-- number of the event that holds the source's output.
local function deliver_all(run, source, scope, event, deliveries, hop)
  local sent, withdrawn = {}, {}
  for _, delivery in ipairs(deliveries) do
    local new
    if delivery[5] <= 1 then
      new = emit(run, delivery, delivery[3], hop, source, scope, event, false)
    else
      new = arrive(run, delivery, source, scope, event, hop, withdrawn)
    end
    if new then sent[#sent + 1] = delivery[9] end
  end
  return sent, withdrawn
end

-- ── runs ─────────────────────────────────────────────────────────────────────────────────

local function close(run, status, error)
  if run.counter > 0 then
    for _, token in ipairs(tokens_in(run, LIVE)) do end_token(run, token, 'dead', 'cancelled') end
  end
  run.status, run.ended_ms, run.error, run.deadline_ms = status, now, error, nil
end

local function complete(run)
  append(run, '{"type":"run.completed"}')
  close(run, 'COMPLETED', nil)
end

-- `error` is `reason` as the run keeps it.
local function cancel(run, reason, by, error)
  append(run, '{"type":"run.cancelled"' .. text('reason', reason) .. text('by', by) .. '}')
  close(run, 'CANCELLED', error)
end

local function start(run, entries, deadline_ms, input)
  change_run(run)
  if input then
    if not run.new then put(run, 'o', call('HGET', run.key, 'i')) end
    put(run, 'i', input)
    run.input = input
  end
  run.status, run.started_ms = 'RUNNING', now
  run.deadline_ms = deadline_ms and now + deadline_ms
  local sent = deliver_all(run, '', '', 0, entries, 0)
  append(run, '{"type":"run.started","to":[' .. concat(sent, ',') .. ']'
    .. number('counter', run.counter, 0) .. number('deadline_ms', run.deadline_ms)
    .. json('input', input) .. '}')
  if run.counter == 0 then complete(run) end
end

-- ── leases, waiting, deadlines ───────────────────────────────────────────────────────────

local function expire(run_id, node, scope)
  local token, run = load_token(run_id, node, scope)
  if not token or token.state ~= 'leased' then return false end
  change_token(token)
  token.expiry = token.expiry + 1
  append(run, about('lease.expired', token) .. number('expiry', token.expiry)
    .. text('session', token.session) .. '}')
  token.lease = ''
  make_ready(run, token, now)
  return true
end

local function resume(tenant, run_id, node, scope, resolution, by, wait_key)
  local token, run = load_token(run_id, node, scope)
  if not token or run.tenant ~= tenant or token.state ~= 'waiting' then return false end
  if wait_key and token.wait_key ~= wait_key then return false end
  change_token(token)
  token.resolution = resolution
  append(run, about('node.resumed', token) .. json('resolution', resolution) .. text('by', by)
    .. '}')
  token.lease = ''
  make_ready(run, token, now)
  return true
end

local function pass_deadline(run_id)
  local run = load_run(run_id)
  if not run or TERMINAL[run.status] or not run.deadline_ms then return false end
  change_run(run)
  cancel(run, 'deadline_exceeded', '',
    '{"code":"deadline_exceeded","message":"deadline_exceeded"}')
  return true
end
