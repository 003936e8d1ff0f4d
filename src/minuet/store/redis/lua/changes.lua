-- What this step has touched: rows, and the sorted sets that list them. No rule is here, and nothing is
-- written: `commit.lua` does that, at the end. As `store/rules/changes.py`, for the rows of Redis.

-- Runs with fields to write, runs and tokens that have changed, and tokens that are new.
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
--: Names of runs that have ended, and of those whose relatives have to learn of something.
local ended, unreported

local function begin_changes()
  written_runs, changed_runs, changed_tokens, new_tokens = {}, {}, {}, {}
  joins, arrivals, doomed, removed, added = {}, {}, {}, {}, {}
  holders, freed, freed_order, was_ready, queues, withdrawn = {}, {}, {}, 0, {}, nil
  ended, unreported = {}, {}
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
    found = { tenant .. '\0' .. queue, ready_key(tenant, queue), 0, false }
    of_tenant[queue] = found
  end
  return found
end

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
    act(waiting_key(tenant, token[T_WAIT], token[T_WAIT_KEY] or ''), member, 0)
    if due_ms then act(KEY.timers, member, due_ms) end
  end
end

-- Call it before the first change of a row.
local function touch_token(token)
  if token[T_CHANGED] then return end
  token[T_CHANGED] = true
  changed_tokens[#changed_tokens + 1] = token
  if token[T_NEW] then return end
  show(token, leave)
  token[T_WAS_LEASED] = token[T_STATE] == 'leased'
  if token[T_STATE] == 'ready' and not token[T_LANE] then was_ready = was_ready + 1 end
end

local function touch_run(run)
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
  touch_run(run)
  run[R_SEQ] = seq
  if not run[R_FED] then run[R_FED] = seq end
  put(run, event_field(seq), record)
  return seq
end

local function append(run, event)
  return append_record(run, run[R_SEQ] + 1, record_of(event))
end

-- Append what `node.completed` says. The output is found again without the white space around it.
local function append_completed(run, token, output, lead, size, record)
  local seq = append_record(run, run[R_SEQ] + 1, record)
  if size ~= #output then output = sub(output, lead + 1, lead + size) end
  if run[R_OUTPUTS] then run[R_OUTPUTS][seq] = output else run[R_OUTPUTS] = { [seq] = output } end
  return seq
end

-- Whether a node instance has a token.
local function has_token(run, node, scope, member)
  local token = tokens[member]
  if token ~= nil then return token end
  return not run[R_NEW] and call('HEXISTS', run[R_KEY], F_TOKEN .. node .. '\0' .. scope) == 1
end

-- The join of a node instance, or nil; whether something has arrived there from `source`.
local function find_join(run, name, member, source)
  local join, known = joins[member], arrivals[member .. '\0' .. source]
  if known or run[R_NEW] then return join, known end
  local field = F_ARRIVAL .. name .. '\0' .. source
  if join then return join, call('HEXISTS', run[R_KEY], field) == 1 end
  local found = call('HMGET', run[R_KEY], F_JOIN .. name, field)
  return found[1] and parse_join(found[1]), found[2]
end

-- An output in a loop or a map can be looked for by its scope.
local function list_scope(run, node, scope)
  run[R_SCOPED] = true
  enter(scopes_key(run[R_NAME]), node .. '\0' .. scope, 0)
end
