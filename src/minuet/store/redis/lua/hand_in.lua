-- Items handed in: judged alone, before the first change is made for them.

local function judge(run, token, kind, item)
  if token.lease ~= item[5] then return TERMINAL[run.status] and 'closed' or 'stale' end
  if token.state ~= 'leased' then
    local cut_off = token.outcome == 'cancelled' or token.outcome == 'superseded'
    return cut_off and 'closed' or 'duplicate'
  end
  if kind == 'done' then
    if item[6] ~= run.plan then return 'replan' end
    if item[7] then return 'limit' end
  end
end

local function done(run, token, item)
  local outcome, output, lead, size, deliveries, error, notes, cursor = unpack(item, 8, 15)
  local more = cursor ~= nil
  local first_time = token.event == 0
  if more then
    change_token(token)
    token.cursor = cursor
    make_ready(run, token, now)
  else
    end_token(run, token, 'done', outcome)
  end
  local event = first_time and run.seq + 1 or token.event
  local sent, withdrawn = deliver_all(run, token.node, token.scope, event, deliveries, token.hop + 1)
  local to, counter = list('to', sent), number('counter', run.counter, 0)
  local gone, flag = list('withdrawn', withdrawn), more and ',"more":true' or ''
  local seq
  if not first_time and not token.skip then
    seq = append(run, about('node.sent', token) .. to .. counter .. gone .. flag .. '}')
  elseif outcome == 'skipped' then
    seq = append(run, about('node.skipped', token) .. to .. counter .. number('hop', token.hop, 0)
      .. gone .. '}')
  else
    seq = append_output(run, about('node.completed', token) .. ',"output":', output, lead, size,
      to .. counter .. number('attempt', token.attempt, 1) .. number('hop', token.hop, 0)
      .. taken_by(token) .. json('error', error) .. json('notes', notes) .. gone .. flag .. '}')
  end
  if first_time then
    token.event = seq
    if token.scope ~= '' and not token.skip then
      run.scoped = true
      enter(scopes_key(run.run), token.node .. '\0' .. token.scope, 0)
    end
  end
  if run.counter == 0 then complete(run) end
end

local function retry(run, token, item)
  local error, delay_ms = item[6], item[7]
  local due_ms = now + math.max(0, delay_ms)
  append(run, about('node.retried', token) .. number('attempt', token.attempt)
    .. json('error', error) .. number('due_ms', due_ms) .. taken_by(token) .. '}')
  change_token(token)
  token.attempt = token.attempt + 1
  make_ready(run, token, due_ms)
end

local function failed(run, token, item)
  local error, run_error, dead_letter, fingerprint = unpack(item, 6, 9)
  change_run(run)
  end_token(run, token, 'dead', 'failed')
  if dead_letter then
    run.dead_letters = run.dead_letters + 1
    put(run, 'd' .. run.generation, pack(token.node, token.scope, run.generation, run.tenant,
      token.queue, dead_letter, error, fingerprint, token.attempt, now, 'pending'))
    enter(dead_key(run.tenant, 'pending'), token.member .. format('\0%08d', run.generation), now)
  end
  local reason = dead_letter and ',"dead_letter":' .. quote(dead_letter) or ''
  append(run, about('node.failed', token) .. number('attempt', token.attempt)
    .. json('error', error) .. number('counter', run.counter, 0) .. reason .. taken_by(token)
    .. '}')
  append(run, about('run.failed', token) .. json('error', error) .. '}')
  close(run, 'FAILED', run_error)
end

local function waiting(run, token, item)
  local kind, key, due_ms, delay_ms, data = unpack(item, 6, 10)
  if delay_ms then due_ms = now + math.max(0, delay_ms) end
  change_token(token)
  token.state, token.due_ms = 'waiting', due_ms
  token.wait, token.wait_key, token.resolution = kind, key, nil
  free_slot(token)
  append(run, about('node.waiting', token) .. ',"kind":' .. quote(kind) .. text('key', key)
    .. number('due_ms', due_ms) .. json('data', data) .. taken_by(token) .. '}')
end

local HANDLERS = { done = done, retry = retry, failed = failed, waiting = waiting }

local function hand_in(tenant, item)
  local kind = item[1]
  local token, run = load_token(item[2], item[3], item[4])
  if not token or run.tenant ~= tenant then return 'stale' end
  local refusal = judge(run, token, kind, item)
  if refusal then return refusal end
  if kind == 'slot' then return ask_slot(token, item[6], item[7]) end
  if kind == 'released' then
    make_ready(run, token, now)
  else
    HANDLERS[kind](run, token, item)
  end
  return 'applied'
end

local function renew(tenant, held, until_ms)
  local token, run = load_token(held[1], held[2], held[3])
  if not token or run.tenant ~= tenant then return false end
  if token.state ~= 'leased' or token.lease ~= held[4] then return false end
  change_token(token)
  token.due_ms = until_ms
  return true
end
