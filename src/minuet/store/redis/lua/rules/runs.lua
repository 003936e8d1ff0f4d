-- Runs: created, started, changed from outside, closed, put in place as a whole.

-- Exports. Everything else stays local to this block.
local is_expected, close, complete, is_over, create_run, check_same, change_run, mark_reported
local mark_noted, pass_deadline, put_run

do

-- Whether the stored run is the one that the caller of `put_run` expects.
function is_expected(run, tenant, expected)
  if not run or not expected then return not run and not expected end
  return run[R_TENANT] == tenant and run[R_SEQ] == expected
end

function close(run, status, error)
  if run[R_COUNTER] > 0 then
    for _, token in ipairs(tokens_in(run, LIVE)) do end_token(run, token, 'dead', 'cancelled') end
  end
  run[R_STATUS], run[R_ENDED_MS], run[R_ERROR], run[R_DEADLINE_MS] = status, now, error, nil
  ended[#ended + 1] = run[R_NAME]
  -- A run that has completed leaves no child behind: each of its tokens has settled.
  if run[R_PARENT_NODE] or (run[R_CHILDREN] and status ~= 'COMPLETED') then
    leave_unreported(run)
  end
end

-- The last token of a run has ended.
function complete(run)
  if run[R_STATUS] == 'COMPENSATING' then return undo.end_undo(run) end
  append(run, events.run_completed())
  close(run, 'COMPLETED', nil)
end

--: The statuses in which a run takes nothing more from outside.
undo.CLOSED = L_CLOSED

-- A run that is over is undone. Any worker finds out what there is to undo, and in which order: that
-- takes its history and its plan.
function undo.undo(run, by, back_to)
  touch_run(run)
  run[R_UNDOS] = (run[R_UNDOS] or 0) + 1
  run[R_ENDS_AS], run[R_STATUS], run[R_ENDED_MS] = run[R_STATUS], 'COMPENSATING', nil
  if ended[#ended] == run[R_NAME] then ended[#ended] = nil end
  local digits = format('%d', run[R_UNDOS])
  -- As `minuet.scopes.encode` writes them.
  local scope = string.char(96 + #digits) .. digits .. 'a0'
  undo.list_undos(run, scope)
  append(run, events.run_compensating(run, scope, by, back_to))
end

function undo.end_undo(run)
  local status = run[R_ENDS_AS]
  touch_run(run)
  run[R_ENDS_AS] = nil
  append(run, events.run_compensated(status))
  close(run, status, run[R_ERROR])
end

local function cancel(run, reason, by, undoes)
  append(run, events.run_cancelled(reason, by))
  note(run)
  close(run, 'CANCELLED', reason_error(reason))
  local wanted = run[R_UNDO_ON] == 'cancel' or run[R_UNDO_ON] == 'both'
  if undoes and wanted and run[R_STARTED_MS] then undo.undo(run) end
end

local function start(run, entries, deadline_ms, input)
  touch_run(run)
  if input then
    if not run[R_NEW] then put(run, F_FIRST_INPUT, call('HGET', run[R_KEY], F_INPUT)) end
    put(run, F_INPUT, input)
    run[R_INPUT] = input
  end
  run[R_STATUS], run[R_STARTED_MS] = 'RUNNING', now
  run[R_DEADLINE_MS] = deadline_ms and now + deadline_ms
  local sent = deliver_all(run, '', '', 0, 0, #entries, each_of(entries))
  append(run, events.run_started(run, sent, input))
  if run[R_COUNTER] == 0 then complete(run) end
end

-- Whether a child run has ended by now.
function is_over(run, child)
  local found = load_run(child)
  return found and found[R_TENANT] == run[R_TENANT] and TERMINAL[found[R_STATUS]]
end

-- Whether a worker has a token under this lease now.
local function is_held(tenant, held)
  local token, run = load_token(held[HELD_RUN], held[HELD_NODE], held[HELD_SCOPE])
  if not token or run[R_TENANT] ~= tenant then return false end
  return token[T_STATE] == 'leased' and token[T_LEASE] == held[HELD_LEASE]
end

-- The run that starts a child run, if it may; or nil, and why not.
local function find_parent(id, tenant, held)
  local name, node = held[HELD_RUN], held[HELD_NODE]
  local run = load_run(name)
  if not run or not is_held(tenant, held) then
    return nil, { 'conflict', id, 'cannot be started by node ' .. node .. ' of run ' .. name
      .. ': its lease is lost', '', 0 }
  end
  local depth = run[R_DEPTH] or 0
  if depth >= DEPTH_MAX then
    return nil, { 'conflict', id,
      format('cannot be started by run %s, which is %d levels deep', name, depth), '', 0 }
  end
  return run
end

-- Create a run and, when it has entries, start it. A child run is only created while the token that
-- starts it is held. `new` is as `create_runs.lua` gets it.
function create_run(new)
  local id, workflow, plan = new[NEW_RUN], new[NEW_WORKFLOW], new[NEW_PLAN]
  local tenant, input, tags = new[NEW_TENANT], new[NEW_INPUT], new[NEW_TAGS]
  local version, tag, held = new[NEW_VERSION], new[NEW_TAG], new[NEW_PARENT]
  local parent, node, scope, depth, number
  local undo_on = new[NEW_UNDO_ON]
  if undo_on == '' then undo_on = nil end
  if held then
    local above, refusal = find_parent(id, tenant, held)
    if refusal then return refusal end
    parent, node, scope = held[HELD_RUN], held[HELD_NODE], held[HELD_SCOPE]
    if scope == '' then scope = nil end
    number = new[NEW_PARENT_NUMBER]
    if number == 0 then number = nil end
    depth = (above[R_DEPTH] or 0) + 1
    above[R_CHILDREN] = (above[R_CHILDREN] or 0) + 1
    -- This is not an event, so nothing of it goes to a log.
    put(above, F_RUN, pack_run(above))
  end
  local cold = pack_origin{ workflow = workflow, plan = plan, created_ms = now, tags = tags,
    idempotency_key = new[NEW_IDEMPOTENCY_KEY], parent = parent, version = version, tag = tag }
  local run = new_run{ name = id, key = RUN .. id, new = true, cold = cold, input = input,
    tenant = tenant, workflow = workflow, plan = plan, parent_node = node, parent_scope = scope,
    depth = depth, parent_number = number, undo_on = undo_on }
  runs[id] = run
  put(run, F_ORIGIN, cold)
  put(run, F_INPUT, input)
  append(run, events.run_created(workflow, plan, input, tags, parent, version, tag, node, scope,
    depth, number, undo_on))
  if new[NEW_ENTRIES] then start(run, new[NEW_ENTRIES], new[NEW_DEADLINE_MS]) end
  return { 'run', run }
end

function repairs.conflict(run, message)
  return { 'conflict', run[R_NAME], message, run[R_STATUS], run[R_SEQ] }
end

local conflict = repairs.conflict

-- Workflow, plan and input of a run as it was created.
local function created(run)
  local cold, input = run[R_COLD], run[R_INPUT]
  if not run[R_NEW] then
    local found = call('HMGET', run[R_KEY], F_ORIGIN, F_INPUT, F_FIRST_INPUT)
    cold, input = found[1], found[3] or found[2]
  end
  local origin = { unpack_row(cold) }
  return origin[O_WORKFLOW], origin[O_PLAN], input
end

-- Whether a run that exists is what was asked for again. What it was at its creation counts: since
-- then it may have got its input, or another plan.
function check_same(known, new)
  if known[R_TENANT] ~= new[NEW_TENANT] then
    return { 'conflict', new[NEW_RUN], 'this id cannot be used', '', 0 }
  end
  local workflow, plan, input = created(known)
  if workflow == new[NEW_WORKFLOW] and plan == new[NEW_PLAN] and input == new[NEW_INPUT] then
    return { 'run', known }
  end
  return conflict(known,
    'exists with the same id or idempotency key, but another workflow or input')
end

-- Why a run cannot be changed in its present state.
local function forbids(run, change)
  return conflict(run, 'is ' .. run[R_STATUS] .. ' and cannot be ' .. change)
end

local function start_run(run, CHANGE)
  if run[R_STATUS] ~= 'PENDING' then return forbids(run, 'started') end
  start(run, change.entries, change.deadline_ms, change.input)
end

local function cancel_run(run, CHANGE)
  if undo.CLOSED[run[R_STATUS]] then return forbids(run, 'cancelled') end
  cancel(run, change.reason, change.by, change.undo)
end

local function pause_run(run, CHANGE)
  if run[R_STATUS] ~= 'RUNNING' then return forbids(run, 'paused') end
  run[R_STATUS] = 'PAUSED'
  for _, token in ipairs(tokens_in(run, { ready = true })) do park(token) end
  append(run, events.run_paused(change.by))
end

local function resume_run(run, CHANGE)
  if run[R_STATUS] ~= 'PAUSED' then return forbids(run, 'resumed') end
  run[R_STATUS] = 'RUNNING'
  for _, token in ipairs(tokens_in(run, { ready = true })) do
    if token[T_LANE] == 'pause' then
      touch_token(token)
      token[T_LANE] = nil
    end
  end
  append(run, events.run_resumed(change.by))
end

-- Make what failed or was cut off ready again, in the next generation. Result: nil, or why not.
function repairs.reopen(run, by, deadline_ms)
  local again, places = {}, {}
  for _, token in ipairs(tokens_in(run, { dead = true })) do
    local cut_off = token[T_OUTCOME] == 'failed' or token[T_OUTCOME] == 'cancelled'
    if cut_off and not undo.is_part(token[T_NODE]) then
      again[#again + 1] = token
      places[#again] = place(token[T_NODE], token[T_SCOPE])
    end
  end
  if #again == 0 and not run[R_STARTED_MS] then
    return conflict(run,
      'was cancelled before it was started: create a new run in its place')
  end
  if #again == 0 then return conflict(run, 'has nothing left to run again') end
  for _, letter in ipairs(pending_letters(run)) do move_letter(run, letter, 'reprocessed') end
  run[R_STATUS], run[R_ENDED_MS], run[R_ERROR], run[R_DEADLINE_MS] = 'RUNNING', nil, nil,
    deadline_ms and now + deadline_ms or nil
  run[R_GENERATION], run[R_COUNTER] = run[R_GENERATION] + 1, #again
  for _, token in ipairs(again) do
    touch_token(token)
    if token[T_OUTCOME] == 'failed' and token[T_RESOLUTION] == L_TIMED_OUT then
      -- Its node failed because nothing came: it waits again.
      token[T_RESOLUTION] = nil
    end
    token[T_STATE], token[T_OUTCOME], token[T_DUE_MS] = 'ready', '', now
    token[T_ATTEMPT], token[T_EXPIRY], token[T_LEASE], token[T_LANE] = 1, nil, '', nil
    token[T_LOST] = nil
  end
  append(run, events.run_retried(run, places, by))
end

local function retry_run(run, CHANGE)
  local held = change.parent
  if run[R_STATUS] ~= 'FAILED' and run[R_STATUS] ~= 'CANCELLED' then
    return forbids(run, 'retried')
  end
  if held and not is_held(run[R_TENANT], held) then
    return conflict(run, 'cannot be retried by its parent, whose lease is lost')
  end
  if run[R_UNDOS] and not change.undone then
    return conflict(run, 'was undone and cannot be retried as if it was not')
  end
  return repairs.reopen(run, change.by, change.deadline_ms)
end

local function patch_run(run, CHANGE)
  if undo.CLOSED[run[R_STATUS]] then return forbids(run, 'patched') end
  local to, gone = {}, {}
  -- Before its start, a run has no settled node that could deliver anything.
  for _, one in ipairs(run[R_STATUS] ~= 'PENDING' and change.deliveries or {}) do
    local source, scope, delivery = unpack(one, 1, 3)
    local token = load_token(run[R_NAME], source, scope)
    local sent = deliver_all(run, source, scope, token and token[T_EVENT] or 0,
      token and token[T_HOP] + 1 or 0, 1, each_of({ delivery }))
    for _, fragment in ipairs(sent) do to[#to + 1] = { source, fragment } end
    for _, one_gone in ipairs(withdrawn or {}) do gone[#gone + 1] = one_gone end
  end
  run[R_PLAN] = change.plan
  append(run, events.run_patched(run, to, change.by, gone))
end

local function signal_run(run, CHANGE)
  local refusal = send_signal(run, CHANGE)
  return refusal and conflict(run, refusal)
end

local function rollback_run(run, CHANGE)
  if not TERMINAL[run[R_STATUS]] then return forbids(run, 'undone') end
  if not run[R_STARTED_MS] then
    return conflict(run, 'was never started: there is nothing to undo')
  end
  undo.undo(run, change.by, change.back_to)
end

local function report_stall(run, CHANGE)
  if run[R_STATUS] ~= 'RUNNING' and run[R_STATUS] ~= 'COMPENSATING' then
    return forbids(run, 'reported as stalled')
  end
  append(run, events.run_stalled(change.since_ms, change.why))
  note(run)
end

local CHANGES = { start = start_run, cancel = cancel_run, pause = pause_run, resume = resume_run,
  retry = retry_run, plan = patch_run, signal = signal_run, rollback = rollback_run,
  stall = report_stall,
  -- It is known only when all rules are.
  repair = function(...) return repairs.repair(...) end }

-- Change a run from outside; `expected` is the event number that the caller has seen. Result: nil, or
-- why not.
function change_run(run, expected, CHANGE)
  if expected and run[R_SEQ] ~= expected then
    return conflict(run, format('has moved on to event %d (expected %d)', run[R_SEQ], expected))
  end
  touch_run(run)
  return CHANGES[change.type](run, CHANGE)
end

-- Whether an instance of its parent waits for a run.
local function waits_for(run, parent, node, scope)
  local token = load_token(parent[R_NAME], node, scope)
  return token and token[T_STATE] == 'waiting' and token[T_WAIT] == 'child'
    and token[T_WAIT_KEY] == run[R_NAME]
end

-- Whether the parent of a run that is over does not know that: see `store/rules/runs.py`.
local function is_parent_waiting(run)
  local node, scope = run[R_PARENT_NODE], run[R_PARENT_SCOPE] or ''
  if not node or not TERMINAL[run[R_STATUS]] then return false end
  local origin = call('HGET', run[R_KEY], F_ORIGIN)
  local parent = origin and load_run(({ unpack_row(origin) })[O_PARENT])
  if not parent or parent[R_TENANT] ~= run[R_TENANT] then return false end
  if run[R_PARENT_NUMBER] then
    local id = format('%s%s:%d', L_CHILD_SIGNAL, run[R_NAME], run[R_GENERATION])
    return not undo.CLOSED[parent[R_STATUS]] and not call('HGET', parent[R_KEY], F_SIGNAL .. id)
  end
  if waits_for(run, parent, node, scope) then return true end
  if not parent[R_UNDOS] then return false end
  local digits = format('%d', parent[R_UNDOS])
  -- As `minuet.store.families.undo_place` names it.
  local at = string.char(96 + #digits) .. digits
  return waits_for(run, parent, node:match('^[^$]*') .. L_UNDO, scope .. at)
end

-- Note that a run's relatives have learned all that happened to it up to this event.
function mark_reported(tenant, name, seq)
  local run = load_run(name)
  if not run or run[R_TENANT] ~= tenant or run[R_SEQ] ~= seq or not run[R_UNREPORTED] then
    return false
  end
  if is_parent_waiting(run) then return false end
  run[R_UNREPORTED] = nil
  leave(KEY.unreported, name)
  -- This is not an event, so nothing of it goes to a log.
  put(run, F_RUN, pack_run(run))
  return true
end

-- Note that what is notable of a run up to this event was passed on.
function mark_noted(tenant, name, upto)
  local run = load_run(name)
  if not run or run[R_TENANT] ~= tenant or not run[R_NOTABLE] or run[R_NOTABLE] > upto then
    return false
  end
  -- What comes after may be notable: the next look at the run finds out.
  run[R_NOTABLE] = run[R_SEQ] > upto and upto + 1 or nil
  if not run[R_NOTABLE] then leave(KEY.notable, name) end
  -- This is not an event, so nothing of it goes to a log.
  put(run, F_RUN, pack_run(run))
  return true
end

-- End a run whose deadline has passed.
function pass_deadline(name)
  local run = load_run(name)
  if not run or TERMINAL[run[R_STATUS]] or not run[R_DEADLINE_MS] then return false end
  touch_run(run)
  cancel(run, 'deadline_exceeded', '', true)
  return true
end

-- Put a run in the place of what is there (nil: nothing). No other rule applies, because the rows that
-- are there need not follow any. `live` are its live tokens: {node, scope, row} each; `awaited`, the child
-- runs whose ends they may wait for.
function put_run(old, run, live, awaited)
  for _, token in ipairs(old and stored_tokens(old) or {}) do
    touch_token(token)
    free_slot(token)
    token[T_STATE], token.gone = 'gone', true
  end
  run[R_NEW], run.replaces, run[R_FED] = true, true, 1
  runs[run[R_NAME]] = run
  touch_run(run)
  for _, one in ipairs(live) do
    local node, scope = one[1], one[2]
    local member = run[R_NAME] .. '\0' .. node .. '\0' .. scope
    local token = parse_token(run, node, scope, member, F_TOKEN .. node .. '\0' .. scope, one[3])
    token[T_NEW] = true
    tokens[member] = token
    touch_token(token)
    if token[T_SLOT] and token[T_LANE] ~= 'slot' then hold_slot(slot_of(token)) end
  end
  for _, name in ipairs(awaited) do
    if is_over(run, name) then
      -- It has ended before this run came here, or came here again. Not an event.
      local child = load_run(name)
      child[R_UNREPORTED] = true
      enter(KEY.unreported, name, 0)
      put(child, F_RUN, pack_run(child))
    end
  end
end

end
