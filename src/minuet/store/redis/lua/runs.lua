-- What happens to runs and tokens from outside an exchange: the rest of `store/transition.py`.

-- Send deliveries from one source instance; say which were sent.
local function deliver_all(run, source, scope, event, deliveries, hop)
  local sent = {}
  for _, delivery in ipairs(deliveries) do
    if deliver(run, source, scope, event, hop, unpack(delivery, 1, 8)) then
      sent[#sent + 1] = delivery[9]
    end
  end
  return sent
end

-- `error` is `reason` as the run keeps it.
local function cancel(run, reason, by, error)
  append(run, '{"type":"run.cancelled"' .. text('reason', reason) .. text('by', by) .. '}')
  close(run, 'CANCELLED', error)
end

local function start(run, entries, deadline_ms, input)
  change_run(run)
  if input then
    if not run[R_NEW] then put(run, 'o', call('HGET', run[R_KEY], 'i')) end
    put(run, 'i', input)
    run[R_INPUT] = input
  end
  run[R_STATUS], run[R_STARTED_MS] = 'RUNNING', now
  run[R_DEADLINE_MS] = deadline_ms and now + deadline_ms
  local sent = deliver_all(run, '', '', 0, entries, 0)
  append(run, '{"type":"run.started","to":[' .. concat(sent, ',') .. ']'
    .. number('counter', run[R_COUNTER], 0) .. number('deadline_ms', run[R_DEADLINE_MS])
    .. json('input', input) .. '}')
  if run[R_COUNTER] == 0 then complete(run) end
end

-- ── leases, waiting, deadlines ───────────────────────────────────────────────────────────

local function expire(name, node, scope)
  local token, run = load_token(name, node, scope)
  if not token or token[T_STATE] ~= 'leased' then return false end
  change_token(token)
  token[T_EXPIRY] = (token[T_EXPIRY] or 0) + 1
  local lost = {}
  for i, one in ipairs(token[T_LOST] or {}) do lost[i] = one end
  lost[#lost + 1] = token[T_LEASE]
  token[T_LOST] = lost
  append(run, about('lease.expired', token) .. number('expiry', token[T_EXPIRY])
    .. text('session', token[T_SESSION]) .. text('lease', token[T_LEASE]) .. '}')
  -- Until somebody takes it, the lease can be taken up again, and the slot is kept.
  token[T_STATE], token[T_DUE_MS] = 'ready', now
  if run[R_STATUS] == 'PAUSED' then park(token) end
  return true
end

local function resume(tenant, name, node, scope, resolution, by, wait_key)
  local token, run = load_token(name, node, scope)
  if not token or run[R_TENANT] ~= tenant or token[T_STATE] ~= 'waiting' then return false end
  if wait_key and token[T_WAIT_KEY] ~= wait_key then return false end
  change_token(token)
  token[T_RESOLUTION] = resolution
  append(run, about('node.resumed', token) .. json('resolution', resolution) .. text('by', by)
    .. '}')
  token[T_LEASE] = ''
  make_ready(run, token, now)
  return true
end

local function pass_deadline(name)
  local run = load_run(name)
  if not run or TERMINAL[run[R_STATUS]] or not run[R_DEADLINE_MS] then return false end
  change_run(run)
  cancel(run, 'deadline_exceeded', '',
    '{"code":"deadline_exceeded","message":"deadline_exceeded"}')
  return true
end
