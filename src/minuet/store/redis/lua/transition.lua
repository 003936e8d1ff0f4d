-- What the store's verbs do to its rows: `store/transition.py` again, function by function, for the
-- one store where the rules must run inside the server. The conformance suite and the differential
-- test hold the two to the same letter. Nothing here writes: `commit.lua` does, at the end.

-- What this step has touched: runs with fields to write, runs, tokens, and those that are new.
local written_runs, changed_runs, changed_tokens, new_tokens
local joins, arrivals, doomed
--: By zset: {member, …} that leave it, then {score, member, …} that come into it.
local removed, added
--: By "tenant \0 slot": change in the number of holders; slots that may have room, in order.
local holders, freed, freed_order
--: Tokens that were ready when they were loaded, and are touched now: the queue still shows them.
local was_ready
--: By tenant, then by queue: {tenant \0 queue, key of what is ready, change in what is leased,
-- whether a new token is for it}.
local queues
--: What the deliveries of the event at hand have withdrawn.
local withdrawn
--: Names of runs that have ended.
local ended

local function begin_changes()
  written_runs, changed_runs, changed_tokens, new_tokens = {}, {}, {}, {}
  joins, arrivals, doomed, removed, added = {}, {}, {}, {}, {}
  holders, freed, freed_order, was_ready, queues, withdrawn, ended = {}, {}, {}, 0, {}, nil, {}
end

local function leave(key, member)
  local members = removed[key]
  if members then members[#members + 1] = member else removed[key] = { member } end
end

local function enter(key, member, score)
  local members = added[key]
  if members then
    local count = #members
    members[count + 1], members[count + 2] = score, member
  else
    added[key] = { score, member }
  end
end

local function queue_of(tenant, queue)
  local of_tenant = queues[tenant]
  if not of_tenant then
    of_tenant = {}
    queues[tenant] = of_tenant
  end
  local found = of_tenant[queue]
  if not found then
    local name = tenant .. '\0' .. queue
    found = { name, READY .. name, 0, false }
    of_tenant[queue] = found
  end
  return found
end

local function ready_key(tenant, queue) return queue_of(tenant, queue)[2] end

-- Do `act` with each zset that shows a token, and the token's score in it.
local function show(token, act)
  local state, lane, due_ms = token[T_STATE], token[T_LANE], token[T_DUE_MS]
  local member, tenant = token[T_MEMBER], token[T_RUN][R_TENANT]
  if state == 'leased' then
    act(LEASES, member, due_ms)
  elseif state == 'ready' and not lane then
    act(ready_key(tenant, token[T_QUEUE]), member, due_ms)
  elseif state == 'ready' then
    act(ASIDE .. tenant .. '\0' .. token[T_QUEUE], member, due_ms)
    if lane == 'slot' then act(waiters_key(tenant .. '\0' .. token[T_SLOT]), member, due_ms) end
  elseif state == 'waiting' then
    act(waiting_key(tenant, token[T_WAIT]), member, 0)
    act(waiting_key(tenant, token[T_WAIT], token[T_WAIT_KEY]), member, 0)
    if due_ms then act(TIMERS, member, due_ms) end
  end
end

-- Call it before the first change of a row.
local function change_token(token)
  if token[T_CHANGED] then return end
  token[T_CHANGED] = true
  changed_tokens[#changed_tokens + 1] = token
  if token[T_NEW] then return end
  show(token, leave)
  token[T_WAS_LEASED] = token[T_STATE] == 'leased'
  if token[T_STATE] == 'ready' and not token[T_LANE] then was_ready = was_ready + 1 end
end

local function change_run(run)
  if run[R_CHANGED] then return end
  run[R_CHANGED] = true
  changed_runs[#changed_runs + 1] = run
  if not run[R_NEW] then
    run[R_OLD_STATUS], run[R_OLD_DEADLINE] = run[R_STATUS], run[R_DEADLINE_MS] or false
    run[R_OLD_ENDED] = run[R_ENDED_MS] or false
  end
end

local function put(run, field, value)
  local out, count = run[R_OUT], run[R_COUNT]
  if not out then
    -- Room for what most steps write: a table that grows is copied at each power of two.
    out = { nil, nil, nil, nil, nil, nil, nil, nil }
    run[R_OUT] = out
    written_runs[#written_runs + 1] = run
  end
  out[count + 1], out[count + 2] = field, value
  run[R_COUNT] = count + 2
end

-- All tokens of a run that are in these states by now, in the order of their keys.
local function tokens_in(run, states)
  local found = {}
  for _, token in ipairs(stored_tokens(run)) do
    if states[token[T_STATE]] then found[#found + 1] = token end
  end
  for _, token in ipairs(new_tokens) do
    if token[T_RUN] == run and states[token[T_STATE]] then found[#found + 1] = token end
  end
  table.sort(found, function(a, b) return precedes(a[T_MEMBER], b[T_MEMBER]) end)
  return found
end

-- Append an event, as its record. All events of all verbs come through here.
local function append_record(run, seq, record)
  change_run(run)
  run[R_SEQ] = seq
  put(run, event_field(seq), record)
  return seq
end

local function append(run, event)
  return append_record(run, run[R_SEQ] + 1, struct_pack(HEAD, now, 0, 0) .. event)
end

-- Append what `node.completed` says. In one go, because every string that is made on the way costs
-- time for each of its bytes. The output is found again without the white space around it.
local function append_completed(run, token, output, lead, size, to, rest)
  local seq = run[R_SEQ] + 1
  local node, scope = quote(token[T_NODE]), quote(token[T_SCOPE])
  local before = HEAD_BYTES + #COMPLETED + #node + #SCOPE + #scope + #OUTPUT + lead
  append_record(run, seq, struct_pack(HEAD, now, before + 1, before + size)
    .. COMPLETED .. node .. SCOPE .. scope .. OUTPUT .. output .. to
    .. number('counter', run[R_COUNTER], 0) .. number('attempt', token[T_ATTEMPT], 1)
    .. number('hop', token[T_HOP], 0) .. taken_by(token) .. rest)
  if size ~= #output then output = sub(output, lead + 1, lead + size) end
  if run[R_OUTPUTS] then run[R_OUTPUTS][seq] = output else run[R_OUTPUTS] = { [seq] = output } end
  return seq
end

-- ── concurrency slots ────────────────────────────────────────────────────────────────────

local function slot_of(token) return token[T_RUN][R_TENANT] .. '\0' .. token[T_SLOT] end

local function free_slot(token)
  if not token[T_SLOT] then return end
  if token[T_LANE] ~= 'slot' then
    local slot = slot_of(token)
    holders[slot] = (holders[slot] or 0) - 1
    if not freed[slot] then
      freed[slot] = true
      freed_order[#freed_order + 1] = slot
    end
  end
  token[T_SLOT], token[T_SLOT_LIMIT] = nil, nil
end

local function count_holders(slot)
  return tonumber(call('HGET', SLOTS, slot) or 0) + (holders[slot] or 0)
end

-- Who waits longest for a slot by now, this step's own changes included.
local function first_waiter(slot)
  local found = {}
  for _, token in ipairs(changed_tokens) do
    if token[T_LANE] == 'slot' and token[T_STATE] == 'ready' and slot_of(token) == slot then
      found[#found + 1] = token
    end
  end
  local first = 0
  repeat
    local members = call('ZRANGE', waiters_key(slot), first, first + 9)
    first = first + 10
    for _, member in ipairs(members) do
      local token = load_token(parts(member))
      if token and not token[T_CHANGED] then
        found[#found + 1] = token
        members = {}
        break
      end
    end
  until #members < 10
  table.sort(found, function(a, b)
    if a[T_DUE_MS] ~= b[T_DUE_MS] then return a[T_DUE_MS] < b[T_DUE_MS] end
    return precedes(a[T_MEMBER], b[T_MEMBER])
  end)
  return found[1]
end

local function lane_of(run) return run[R_STATUS] == 'PAUSED' and 'pause' or nil end

local function promote(slot)
  freed[slot] = nil
  local taken = count_holders(slot)
  while true do
    local token = first_waiter(slot)
    if not token or taken >= token[T_SLOT_LIMIT] then break end
    taken = taken + 1
    holders[slot] = (holders[slot] or 0) + 1
    change_token(token)
    token[T_LANE] = lane_of(token[T_RUN])
  end
end

local function promote_waiters()
  local i = 1
  while i <= #freed_order do
    if freed[freed_order[i]] then promote(freed_order[i]) end
    i = i + 1
  end
end

-- Hold a ready token back while its run is paused. Whatever slot it holds or waits for is for
-- others, and with a slot that it held goes the lease that had it.
local function park(token)
  change_token(token)
  if token[T_SLOT] then
    free_slot(token)
    token[T_LEASE] = ''
  end
  token[T_LANE] = 'pause'
end

-- An empty key is no limit.
local function ask_slot(token, key, limit)
  if key == '' or token[T_SLOT] == key then return 'held' end
  change_token(token)
  if token[T_RUN][R_STATUS] == 'PAUSED' then
    -- It asks again when the run goes on.
    token[T_STATE], token[T_DUE_MS], token[T_LEASE] = 'ready', now, ''
    park(token)
    return 'applied'
  end
  free_slot(token)
  local slot = token[T_RUN][R_TENANT] .. '\0' .. key
  if freed[slot] then promote(slot) end
  local taken = count_holders(slot)
  token[T_SLOT], token[T_SLOT_LIMIT] = key, limit
  if taken < limit then
    holders[slot] = (holders[slot] or 0) + 1
    return 'held'
  end
  token[T_STATE], token[T_DUE_MS], token[T_LEASE], token[T_LANE] = 'ready', now, '', 'slot'
  return 'applied'
end

-- ── tokens ───────────────────────────────────────────────────────────────────────────────

local function has_token(run, node, scope, member)
  local token = tokens[member]
  if token ~= nil then return token end
  return not run[R_NEW] and call('HEXISTS', run[R_KEY], 't' .. node .. '\0' .. scope) == 1
end

-- What a token reads, fixed at the event that makes it ready: the next one.
local function fixed(run, reads)
  local found = unpack_row(reads)
  for _, read in ipairs(found) do read[3] = run[R_SEQ] + 1 end
  return pack(found)
end

-- Make the target's token ready; false when the instance has one already.
local function emit(run, node, scope, live, queue, reads, hop, source, source_scope, event, joined)
  local member = run[R_NAME] .. '\0' .. node .. '\0' .. scope
  if has_token(run, node, scope, member) then return false end
  -- Any worker can pass a skip on, whatever it takes to run the node.
  if not live then queue, source, source_scope, event, reads = '', '', nil, 0, nil end
  if source_scope == '' then source_scope = nil end
  if reads then reads = fixed(run, reads) end
  local token = {
    member, run, node, scope, true, true, false,
    now, 0, hop, 1, 0, 0, event, 'ready', '', '', '', queue, source, 0,
    not live or nil, source_scope, reads, joined, lane_of(run),
  }
  tokens[member] = token
  new_tokens[#new_tokens + 1] = token
  changed_tokens[#changed_tokens + 1] = token
  run[R_COUNTER] = run[R_COUNTER] + 1
  return true
end

-- A live token ends: it no longer counts.
local function end_token(run, token, state, outcome)
  change_token(token)
  token[T_STATE], token[T_OUTCOME] = state, outcome
  token[T_DUE_MS], token[T_WAIT], token[T_WAIT_KEY] = nil, nil, nil
  free_slot(token)
  token[T_LANE] = nil
  run[R_COUNTER] = run[R_COUNTER] - 1
end

local function make_ready(run, token, due_ms)
  change_token(token)
  token[T_STATE], token[T_DUE_MS] = 'ready', due_ms
  token[T_WAIT], token[T_WAIT_KEY] = nil, nil
  free_slot(token)
  token[T_LANE] = lane_of(run)
end

-- ── leases that expired ──────────────────────────────────────────────────────────────────

local function is_lost(token, lease)
  for _, one in ipairs(token[T_LOST] or {}) do
    if one == lease then return lease ~= '' end
  end
  return false
end

-- Whether a token's lease has expired and nobody has taken the token since. Its last worker may go
-- on as if nothing had happened.
local function is_open(token)
  return token[T_STATE] == 'ready' and is_lost(token, token[T_LEASE])
end

-- Tell of the worker of an expired lease that it is alive.
local function returned(token, lease, late)
  local kept = {}
  for _, one in ipairs(token[T_LOST]) do
    if one ~= lease then kept[#kept + 1] = one elseif late then kept[#kept + 1] = '' end
  end
  local expiry = math.max(0, (token[T_EXPIRY] or 0) - 1)
  token[T_LOST], token[T_EXPIRY] = kept[1] and kept, expiry > 0 and expiry or nil
  append(token[T_RUN], about('lease.returned', token) .. number('expiry', expiry)
    .. ',"lease":' .. quote(lease) .. (late and ',"late":true' or '') .. '}')
end

-- The worker of the token's last lease goes on.
local function revive(token, until_ms)
  change_token(token)
  token[T_STATE], token[T_DUE_MS], token[T_LANE] = 'leased', until_ms, nil
  returned(token, token[T_LEASE], false)
end

-- A worker names a lease that is not the token's. If it is one that has expired, its worker is
-- alive, so the expiry was no crash.
local function come_back(token, lease)
  if not token[T_LOST] or not LIVE[token[T_STATE]] or not is_lost(token, lease) then return end
  local late = 0
  for _, one in ipairs(token[T_LOST]) do
    if one == '' then late = late + 1 end
  end
  if late >= RETURNS_MAX then return end
  change_token(token)
  returned(token, lease, true)
end

-- A join has fired: what only leads to it is no longer wanted.
local function withdraw(run, scope, names)
  local nodes = {}
  for _, node in ipairs(names) do nodes[node] = true end
  for _, token in ipairs(tokens_in(run, LIVE)) do
    if nodes[token[T_NODE]] and sub(token[T_SCOPE], 1, #scope) == scope then
      end_token(run, token, 'dead', 'superseded')
      withdrawn = withdrawn or {}
      withdrawn[#withdrawn + 1] = place(token[T_NODE], token[T_SCOPE])
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
local function arrive(run, node, scope, live, need, total, queue, reads, withdraws, hop, source,
  source_scope, event)
  local name = node .. '\0' .. scope
  local member, field = run[R_NAME] .. '\0' .. name, 'a' .. name .. '\0' .. source
  local join = joins[member]
  local known = arrivals[member .. '\0' .. source]
  if not known and not run[R_NEW] then
    if join then
      known = call('HEXISTS', run[R_KEY], field) == 1
    else
      local found = call('HMGET', run[R_KEY], 'j' .. name, field)
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
    emit(run, node, scope, join.live > 0, queue, reads, join.hop, '', nil, 0, true)
    if withdraws then withdraw(run, scope, withdraws) end
  end
  return true
end

-- Send one delivery from a source instance; whether it was new. `event` is the number of the event
-- that holds the source's output.
local function deliver(run, source, source_scope, event, hop, node, scope, live, need, total, queue,
  reads, withdraws)
  if total <= 1 then
    return emit(run, node, scope, live, queue, reads, hop, source, source_scope, event)
  end
  return arrive(run, node, scope, live, need, total, queue, reads, withdraws, hop, source,
    source_scope, event)
end

-- ── runs ─────────────────────────────────────────────────────────────────────────────────

local function close(run, status, error)
  if run[R_COUNTER] > 0 then
    for _, token in ipairs(tokens_in(run, LIVE)) do end_token(run, token, 'dead', 'cancelled') end
  end
  run[R_STATUS], run[R_ENDED_MS], run[R_ERROR], run[R_DEADLINE_MS] = status, now, error, nil
  ended[#ended + 1] = run[R_NAME]
end

local function complete(run)
  append(run, '{"type":"run.completed"}')
  close(run, 'COMPLETED', nil)
end
