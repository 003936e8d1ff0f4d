-- Items handed in: judged alone, before the first change is made for them.

-- Exports. Everything else stays local to this block.
local hand_in

do

-- `flaw`: true: a result is too large. A text: it stands for this blob, which may be lost.
local function judge(run, token, kind, lease, plan, flaw)
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
    if flaw and not logged
      and call('HEXISTS', blobs_key(run[R_NAME]), run[R_TENANT] .. '\0' .. flaw) == 0
    then
      return 'stale'
    end
  elseif kind == 'waiting' and not plan then
    return 'limit' -- Its key is too long, and was not sent.
  end
end

local function done(run, token, count, _, _, outcome, output, lead, size, error, notes, cursor)
  local node, scope = token[T_NODE], token[T_SCOPE]
  local first_time = token[T_EVENT] == 0
  if cursor then
    touch_token(token)
    token[T_CURSOR] = cursor
    make_ready(run, token, now)
  else
    end_token(run, token, 'done', outcome)
  end
  -- Withdrawing ends tokens of this run, never the token at hand: it has ended above.
  local event = first_time and run[R_SEQ] + 1 or token[T_EVENT]
  local sent = deliver_all(run, node, scope, event, token[T_HOP] + 1, count, next_delivery)
  local seq
  if not first_time and not token[T_SKIP] then
    seq = append(run, events.node_sent(token, run[R_COUNTER], sent, withdrawn, cursor))
  elseif outcome == 'skipped' then
    seq = append(run, events.node_skipped(token, run[R_COUNTER], sent, withdrawn))
  else
    seq = append_completed(run, token, output, lead, size, sent, error, notes, withdrawn, cursor)
  end
  if first_time then
    token[T_EVENT] = seq
    if scope ~= '' and not token[T_SKIP] then list_scope(run, node, scope) end
  end
  if run[R_COUNTER] == 0 then complete(run) end
end

local function retry(run, token, _, error, delay_ms)
  local due_ms = now + math.max(0, delay_ms)
  append(run, events.node_retried(token, error, due_ms))
  touch_token(token)
  token[T_ATTEMPT] = token[T_ATTEMPT] + 1
  make_ready(run, token, due_ms)
end

-- `run_error` is `error` as the run keeps it.
local function failed(run, token, _, error, run_error, dead_letter, fingerprint)
  touch_run(run)
  end_token(run, token, 'dead', 'failed')
  if dead_letter then keep_letter(run, token, dead_letter, error, fingerprint) end
  append(run, events.node_failed(token, run[R_COUNTER], error, dead_letter))
  append(run, events.run_failed(token, error))
  close(run, 'FAILED', run_error)
end

local function waiting(run, token, _, kind, key, due_ms, delay_ms, payload)
  if delay_ms then due_ms = now + math.max(0, delay_ms) end
  touch_token(token)
  token[T_STATE], token[T_DUE_MS] = 'waiting', due_ms
  token[T_WAIT], token[T_WAIT_KEY], token[T_RESOLUTION] = kind, key, nil
  free_slot(token)
  token[T_WAIT_EVENT] = append(run, events.node_waiting(token, payload))
  if kind == 'child' and is_over(run, key) then
    -- It has ended before anything waited for it.
    resume(run[R_TENANT], run[R_NAME], token[T_NODE], token[T_SCOPE], CHILD_ENDED, key)
  end
  if kind == L_SIGNAL_WAIT then receive_kept(run, token) end
end

local function released(run, token) make_ready(run, token, now) end

local HANDLERS = { done = done, retry = retry, failed = failed, waiting = waiting,
  released = released }

-- Apply the next item of the request, or say why not.
function hand_in(tenant)
  local kind, name, node, scope, lease, a, b, c, d, e, f, g, h, i, count
  offset, kind, name, node, scope, lease, a, b, c, d, e, f, g, h, i, count =
    unpack_limit(data, ITEM, offset)
  local token, run
  if count == 1 then
    token, run = load_with_target(name, node, scope)
  else
    token, run = load_token(name, node, scope)
  end
  local refusal
  if not token or run[R_TENANT] ~= tenant then
    refusal = 'stale'
  else
    refusal = judge(run, token, kind, lease, a, b)
  end
  if refusal then
    skip_deliveries(count)
    if refusal == 'replan' then replanned[name] = true end
    return refusal
  end
  if is_lost(token, lease) then revive(run, token) end
  if kind == 'slot' then return ask_slot(run, token, a, b) end
  HANDLERS[kind](run, token, count, a, b, c, d, e, f, g, h, i)
  return 'applied'
end

end
