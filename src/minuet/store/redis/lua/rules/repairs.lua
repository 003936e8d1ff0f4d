-- Repairs: somebody decides what becomes of one token that has not settled.

do

--: Why a token that has ended cannot be changed, by its outcome.
local ENDED_BY = { completed = 'it has completed', skipped = 'it was skipped',
  failed = 'its failure was handled', superseded = 'it was withdrawn', cancelled = 'it was cut off' }

-- Whether a token waits for somebody who decides, because its node failed.
local function is_held(token)
  return token[T_STATE] == 'waiting' and token[T_WAIT] == L_HOLD_WAIT
end

-- Why a token cannot be repaired in this way; nil: it can.
local function refusal_of(run, token, action)
  local status, has_failed = run[R_STATUS], false
  if status == 'FAILED' then
    has_failed = token[T_STATE] == 'dead' and token[T_OUTCOME] == 'failed'
  end
  if action == 'edit' then
    return not (has_failed or is_held(token)) and 'it has not failed' or nil
  end
  local decides = action == 'skip' or action == 'output'
  if has_failed and decides and run[R_UNDOS] then return 'the run was undone' end
  if TERMINAL[status] and not (has_failed and decides) then return 'the run is ' .. status end
  if undo.CLOSED[status] and not TERMINAL[status] and action ~= 'take_back' then
    return 'the run is ' .. status
  end
  if not LIVE[token[T_STATE]] and not has_failed then return ENDED_BY[token[T_OUTCOME]] end
  if action == 'take_back' then
    return not (token[T_STATE] == 'leased' or is_open(token)) and 'no worker holds it' or nil
  end
  if not decides then return not is_held(token) and 'it is not held' or nil end
  if token[T_SKIP] then return 'it is being skipped' end
  -- Its fan-out goes on.
  return token[T_EVENT] ~= 0 and ENDED_BY.completed or nil
end

-- Its handler will not be called: any worker may pass the result on, and child runs that it has started
-- are not wanted.
local function decide(run, token, anywhere)
  if anywhere then
    local tenant = run[R_TENANT]
    if token[T_WAS_LEASED] then
      local queue = queue_of(tenant, token[T_QUEUE])
      queue[3], token[T_WAS_LEASED] = queue[3] - 1, false
    end
    token[T_QUEUE] = ''
    queue_of(tenant, '')[4] = true
  end
  if run[R_CHILDREN] then leave_unreported(run) end
end

local function edit(run, token, CHANGE)
  token[T_EDITED] = append(run, events.node_edited(token, change.value, change.by, change.why))
end

local function fail_held(run, token, CHANGE)
  end_token(run, token, 'dead', 'failed')
  append(run, events.node_failed(token, run[R_COUNTER], change.error, nil, true))
  note(run)
  append(run, events.run_failed(token, change.error))
  close(run, 'FAILED', change.run_error)
  if run[R_UNDO_ON] == 'failure' or run[R_UNDO_ON] == 'both' then undo.undo(run) end
end

function repairs.repair(run, CHANGE)
  local action, why = change.action, change.why
  local token = load_token(run[R_NAME], change.node, change.scope)
  if not token then return repairs.conflict(run, 'has no such instance of node ' .. change.node) end
  local refusal = refusal_of(run, token, action)
  if refusal then
    return repairs.conflict(run, 'cannot change node ' .. change.node .. ': ' .. refusal)
  end
  touch_token(token)
  if action == 'edit' then
    edit(run, token, CHANGE)
    return nil
  end
  if TERMINAL[run[R_STATUS]] then repairs.reopen(run, change.by, change.deadline_ms) end
  if is_held(token) then
    local letter = repairs.held_letter(run, token)
    local status = action == 'fail' and 'discarded' or 'reprocessed'
    if letter then move_letter(run, letter, status, action == 'fail' and why or nil) end
  end
  local is_taken = token[T_STATE] == 'leased' or is_open(token)
  local seq = append(run,
    events.node_repaired(token, action, change.value, change.by, why, is_taken))
  token[T_LEASE] = ''
  make_ready(run, token, now)
  if action == 'skip' then
    token[T_SKIP] = true
    decide(run, token, true)
  elseif action == 'output' then
    token[T_GIVEN] = seq
    decide(run, token, change.anywhere)
  elseif action == 'retry' then
    token[T_ATTEMPT], token[T_EXPIRY], token[T_LOST] = 1, nil, nil
    if token[T_RESOLUTION] == L_TIMED_OUT then token[T_RESOLUTION] = nil end
  elseif action == 'fail' then
    fail_held(run, token, CHANGE)
  end
end

end
