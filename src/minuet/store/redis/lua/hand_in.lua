-- Items handed in: judged alone, before the first change is made for them. An item is fifteen values
-- of the request, one after the other: kind, run, node, scope, lease, nine that the kind needs, and
-- how many deliveries follow, with nine values each. They are read where they stand, because a table
-- for each would cost more than all the rest.

local ITEM, DELIVERY = 15, 9

--: The request, and up to where it has been read.
local data, offset
--: By name: runs that have another plan by now.
local replanned

local function begin_items(request)
  data, offset, replanned = request, 0, {}
end

-- What the other parts see of this one: the rest would be in their way.
local hand_in, runs_of, renew

do

local function skip_deliveries(count)
  for _ = 1, count do offset = unpack_limit(data, DELIVERY, offset) end
end

-- A token with its run, and whether its only target has a token already, in one command.
local function load_with_target(name, node, scope)
  if runs[name] ~= nil then return load_token(name, node, scope) end
  local _, to, to_scope = unpack_limit(data, 2, offset)
  local found = call('HMGET', RUN .. name, 'R', 't' .. node .. '\0' .. scope,
    't' .. to .. '\0' .. to_scope)
  local run = found[1] and parse_run(name, found[1])
  runs[name] = run
  if not run then return false, false end
  if not found[3] then tokens[name .. '\0' .. to .. '\0' .. to_scope] = false end
  return keep_token(run, node, scope, name .. '\0' .. node .. '\0' .. scope, found[2]), run
end

-- `flaw`: true: a result is too large. A text: it stands for this blob, which may be lost.
local function judge(run, token, kind, lease, plan, flaw)
  if token[T_LEASE] ~= lease then
    come_back(token, lease)
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

-- Send the deliveries of an item; what was sent, as it stands in the event.
local function send_deliveries(run, source, source_scope, event, hop, count)
  local sent = {}
  for _ = 1, count do
    local node, scope, live, need, total, queue, reads, withdraws, fragment
    offset, node, scope, live, need, total, queue, reads, withdraws, fragment =
      unpack_limit(data, DELIVERY, offset)
    if deliver(run, source, source_scope, event, hop, node, scope, live, need, total, queue, reads,
      withdraws)
    then
      if count == 1 then return ',"to":[' .. fragment .. ']' end
      sent[#sent + 1] = fragment
    end
  end
  return list('to', sent)
end

local function done(run, token, count, _, _, outcome, output, lead, size, error, notes, cursor)
  local node, scope, hop = token[T_NODE], token[T_SCOPE], token[T_HOP]
  local first_time = token[T_EVENT] == 0
  if cursor then
    change_token(token)
    token[T_CURSOR] = cursor
    make_ready(run, token, now)
  else
    end_token(run, token, 'done', outcome)
  end
  withdrawn = nil
  local event = first_time and run[R_SEQ] + 1 or token[T_EVENT]
  local to = count > 0 and send_deliveries(run, node, scope, event, hop + 1, count) or ''
  local gone = withdrawn and list('withdrawn', withdrawn) or ''
  local flag = cursor and ',"more":true' or ''
  local seq
  if not first_time and not token[T_SKIP] then
    seq = append(run, about('node.sent', token) .. to .. number('counter', run[R_COUNTER], 0)
      .. gone .. flag .. '}')
  elseif outcome == 'skipped' then
    seq = append(run, about('node.skipped', token) .. to .. number('counter', run[R_COUNTER], 0)
      .. number('hop', hop, 0) .. gone .. '}')
  else
    local rest = '}'
    if error or notes or withdrawn or cursor then
      rest = json('error', error) .. json('notes', notes) .. gone .. flag .. '}'
    end
    seq = append_completed(run, token, output, lead, size, to, rest)
  end
  if first_time then
    token[T_EVENT] = seq
    if scope ~= '' and not token[T_SKIP] then
      run[R_SCOPED] = true
      enter(scopes_key(run[R_NAME]), node .. '\0' .. scope, 0)
    end
  end
  if run[R_COUNTER] == 0 then complete(run) end
end

local function retry(run, token, _, error, delay_ms)
  local due_ms = now + math.max(0, delay_ms)
  append(run, about('node.retried', token) .. number('attempt', token[T_ATTEMPT])
    .. json('error', error) .. number('due_ms', due_ms) .. taken_by(token) .. '}')
  change_token(token)
  token[T_ATTEMPT] = token[T_ATTEMPT] + 1
  make_ready(run, token, due_ms)
end

local function failed(run, token, _, error, run_error, dead_letter, fingerprint)
  local node, scope, attempt = token[T_NODE], token[T_SCOPE], token[T_ATTEMPT]
  change_run(run)
  end_token(run, token, 'dead', 'failed')
  if dead_letter then
    local tenant, generation = run[R_TENANT], run[R_GENERATION]
    run[R_DEAD_LETTERS] = (run[R_DEAD_LETTERS] or 0) + 1
    put(run, 'd' .. generation, pack(node, scope, generation, tenant, token[T_QUEUE], dead_letter,
      error, fingerprint, attempt, now, 'pending'))
    enter(dead_key(tenant, 'pending'), token[T_MEMBER] .. format('\0%08d', generation), now)
  end
  local reason = dead_letter and ',"dead_letter":' .. quote(dead_letter) or ''
  append(run, about('node.failed', token) .. number('attempt', attempt) .. json('error', error)
    .. number('counter', run[R_COUNTER], 0) .. reason .. taken_by(token) .. '}')
  append(run, about('run.failed', token) .. json('error', error) .. '}')
  close(run, 'FAILED', run_error)
end

local function waiting(run, token, _, kind, key, due_ms, delay_ms, payload)
  if delay_ms then due_ms = now + math.max(0, delay_ms) end
  change_token(token)
  token[T_STATE], token[T_DUE_MS] = 'waiting', due_ms
  token[T_WAIT], token[T_WAIT_KEY], token[T_RESOLUTION] = kind, key, nil
  free_slot(token)
  append(run, about('node.waiting', token) .. ',"kind":' .. quote(kind) .. text('key', key)
    .. number('due_ms', due_ms) .. json('data', payload) .. taken_by(token) .. '}')
end

local function released(run, token) make_ready(run, token, now) end

local HANDLERS = { done = done, retry = retry, failed = failed, waiting = waiting,
  released = released }

-- Judge and apply the next item of the request.
function hand_in(tenant, until_ms)
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
  if token[T_STATE] == 'ready' then revive(token, until_ms) end
  if kind == 'slot' then return ask_slot(token, a, b) end
  HANDLERS[kind](run, token, count, a, b, c, d, e, f, g, h, i)
  return 'applied'
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

function renew(tenant, held, until_ms)
  local token, run = load_token(held[1], held[2], held[3])
  if not token or run[R_TENANT] ~= tenant then return false end
  if token[T_LEASE] ~= held[4] then
    come_back(token, held[4])
    return false
  end
  if token[T_STATE] == 'leased' then
    change_token(token)
    token[T_DUE_MS] = until_ms
    return true
  end
  if not is_open(token) then return false end
  revive(token, until_ms)
  return true
end

end
