-- Items handed in: judged alone, before the first change is made for them.

-- Exports. Everything else stays local to this block.
local hand_in

do

--: Results after which the worker goes on under the same lease.
local GOES_ON = L_GOES_ON

-- `flaw`: true: it is too large, and came without its content. A list: it names these blobs, which
-- may be lost.
local function judge(run, token, lease, kind, plan, flaw, max_bytes, output_bytes)
  if token[T_LEASE] ~= lease then
    come_back(run, token, lease)
    return TERMINAL[run[R_STATUS]] and 'closed' or 'stale'
  end
  if token[T_STATE] ~= 'leased' and not is_open(token) then
    local outcome = token[T_OUTCOME]
    local cut_off = outcome == 'cancelled' or outcome == 'superseded'
    return cut_off and 'closed' or 'duplicate'
  end
  if kind == 'done' then
    if plan ~= run[R_PLAN] then return 'replan' end
    if flaw == true then return 'limit' end
    if flaw and not logged then
      local blobs, tenant = blobs_key(run[R_NAME]), run[R_TENANT]
      for i = 1, #flaw do
        if call('HEXISTS', blobs, tenant .. '\0' .. flaw[i]) == 0 then return 'stale' end
      end
    end
    if max_bytes and (run[R_OUTPUT_BYTES] or 0) + output_bytes > max_bytes then
      return 'full'
    end
  elseif flaw then
    return 'limit'
  end
end

local function done(run, token, ITEM)
  local node, scope = token[T_NODE], token[T_SCOPE]
  local first_time, outcome, cursor = token[T_EVENT] == 0, item.outcome, item.cursor
  if cursor then
    touch_token(token)
    token[T_CURSOR] = cursor
    make_ready(run, token, now)
  else
    end_token(run, token, 'done', outcome)
  end
  -- Withdrawing ends tokens of this run, never the token at hand: it has ended above.
  local event = first_time and run[R_SEQ] + 1 or token[T_EVENT]
  local sent =
    deliver_all(run, node, scope, event, token[T_HOP] + 1, item.deliveries, next_delivery)
  local seq
  if not first_time and not token[T_SKIP] then
    seq = append(run, events.node_sent(token, run[R_COUNTER], sent, withdrawn, cursor))
  elseif outcome == 'skipped' then
    seq = append(run, events.node_skipped(token, run[R_COUNTER], sent, withdrawn))
  else
    local dead_letter = item.error and item.dead_letter
    if dead_letter then
      touch_run(run)
      keep_letter(run, token, dead_letter, item.error, item.fingerprint)
    end
    local record = completed_record(token, run[R_COUNTER], item.output, item.lead, item.size, sent,
      item.error, item.notes, withdrawn, cursor, item.dead_letter, item.output_bytes)
    seq = append_completed(run, token, item.output, item.lead, item.size, record)
    if item.output_bytes > 0 then
      touch_run(run)
      run[R_OUTPUT_BYTES] = (run[R_OUTPUT_BYTES] or 0) + item.output_bytes
    end
  end
  if first_time then
    token[T_EVENT] = seq
    if scope ~= '' and not token[T_SKIP] then list_scope(run, node, scope) end
  end
  if run[R_COUNTER] == 0 then complete(run) end
end

local function retry(run, token, ITEM)
  local due_ms = now + math.max(0, item.delay_ms)
  append(run, events.node_retried(token, item.error, due_ms))
  touch_token(token)
  token[T_ATTEMPT] = token[T_ATTEMPT] + 1
  make_ready(run, token, due_ms)
end

-- Keep the token of a node that failed alive, until somebody decides.
local function hold(run, token, error, dead_letter, fingerprint)
  touch_token(token)
  if dead_letter then keep_letter(run, token, dead_letter, error, fingerprint, true) end
  token[T_STATE], token[T_DUE_MS] = 'waiting', nil
  token[T_WAIT], token[T_WAIT_KEY] = L_HOLD_WAIT, ''
  free_slot(token)
  token[T_WAIT_EVENT] = append(run, events.node_held(token, error, dead_letter))
  note(run)
end

local function failed(run, token, ITEM)
  local error, dead_letter = item.error, item.dead_letter
  touch_run(run)
  if item.hold then return hold(run, token, error, dead_letter, item.fingerprint) end
  end_token(run, token, 'dead', 'failed')
  if dead_letter then keep_letter(run, token, dead_letter, error, item.fingerprint) end
  append(run, events.node_failed(token, run[R_COUNTER], error, dead_letter))
  note(run)
  -- How to go on with the undo is not known.
  if run[R_STATUS] == 'COMPENSATING' then return undo.end_undo(run) end
  append(run, events.run_failed(token, error))
  close(run, 'FAILED', item.run_error)
  if run[R_UNDO_ON] == 'failure' or run[R_UNDO_ON] == 'both' then undo.undo(run) end
end

local function waiting(run, token, ITEM)
  local kind, key, due_ms = item.kind, item.key, item.due_ms
  if item.delay_ms then due_ms = now + math.max(0, item.delay_ms) end
  touch_token(token)
  token[T_STATE], token[T_DUE_MS] = 'waiting', due_ms
  token[T_WAIT], token[T_WAIT_KEY], token[T_RESOLUTION] = kind, key, nil
  free_slot(token)
  token[T_WAIT_EVENT] = append(run, events.node_waiting(token, item.data))
  if kind == L_APPROVAL_WAIT then note(run) end
  if kind == 'child' and (is_over(run, key) or is_missing(run, key)) then
    -- It has ended before anything waited for it, or is to be started again.
    resume(run[R_TENANT], run[R_NAME], token[T_NODE], token[T_SCOPE], CHILD_ENDED, key)
  end
  if kind == L_SIGNAL_WAIT then
    receive_kept(run, token)
  elseif kind == L_FLOW_WAIT then
    find_awaited(run, token)
  end
end

local function released(run, token) make_ready(run, token, now) end

local HANDLERS = { done = done, retry = retry, failed = failed, waiting = waiting,
  released = released }

-- Apply the next item of the request, or say why not.
function hand_in(tenant)
  local after, ITEM = unpack_limit(data, ITEM_VALUES, offset)
  offset = after
  local token, run
  if item.deliveries == 1 then
    token, run = load_with_target(item.run, item.node, item.scope)
  else
    token, run = load_token(item.run, item.node, item.scope)
  end
  local refusal
  if not token or run[R_TENANT] ~= tenant then
    refusal = 'stale'
  else
    refusal = judge(run, token, item.lease, item.type, item.plan, item.flaw, item.max_bytes,
      item.output_bytes)
  end
  if (not refusal or GOES_ON[refusal]) and is_lost(token, item.lease) then revive(run, token) end
  if refusal then
    skip_deliveries(item.deliveries)
    if refusal == 'replan' or refusal == 'full' then replanned[item.run] = true end
    return refusal
  end
  if item.type == 'slot' then return ask_slot(run, token, ITEM) end
  HANDLERS[item.type](run, token, ITEM)
  return 'applied'
end

end
