-- change_run: from outside, by compare-and-set on the run's event number.
-- request: now_ms or nil, tenant, run, expected seq or nil, kind, then what the kind needs.
-- Result: {'missing'}, {'conflict', message, status, seq} or {'run', run, whether there is work}.

local asked = unpack_row(request)
local given, tenant, run_id, expected, kind = unpack(asked, 1, 5)
now = clock(given)

local run = load_run(run_id)
if not run or run[R_TENANT] ~= tenant then return { 'missing' } end

local function conflict(message) return { 'conflict', message, run[R_STATUS], run[R_SEQ] } end

local function forbids(verb) return conflict('is ' .. run[R_STATUS] .. ' and cannot be ' .. verb) end

local CHANGES = {}

function CHANGES.start(entries, deadline_ms, input)
  if run[R_STATUS] ~= 'PENDING' then return forbids('started') end
  start(run, entries, deadline_ms, input)
end

function CHANGES.cancel(reason, by, error)
  if TERMINAL[run[R_STATUS]] then return forbids('cancelled') end
  cancel(run, reason, by, error)
end

function CHANGES.pause(by)
  if run[R_STATUS] ~= 'RUNNING' then return forbids('paused') end
  run[R_STATUS] = 'PAUSED'
  for _, token in ipairs(tokens_in(run, { ready = true })) do park(token) end
  append(run, '{"type":"run.paused"' .. text('by', by) .. '}')
end

function CHANGES.resume(by)
  if run[R_STATUS] ~= 'PAUSED' then return forbids('resumed') end
  run[R_STATUS] = 'RUNNING'
  for _, token in ipairs(tokens_in(run, { ready = true })) do
    if token[T_LANE] == 'pause' then
      change_token(token)
      token[T_LANE] = nil
    end
  end
  append(run, '{"type":"run.resumed"' .. text('by', by) .. '}')
end

local function reprocess_dead_letters()
  local field = 'd' .. run[R_GENERATION]
  local data = call('HGET', run[R_KEY], field)
  if not data then return end
  local letter = { unpack_row(data) }
  if letter[11] ~= 'pending' then return end
  letter[11] = 'reprocessed'
  put(run, field, pack(unpack(letter, 1, 11)))
  local member = run_id .. '\0' .. letter[1] .. '\0' .. letter[2] .. format('\0%08d', letter[3])
  leave(dead_key(tenant, 'pending'), member)
  enter(dead_key(tenant, 'reprocessed'), member, letter[10])
end

function CHANGES.retry(by, deadline_ms)
  if run[R_STATUS] ~= 'FAILED' and run[R_STATUS] ~= 'CANCELLED' then return forbids('retried') end
  local again, names = {}, {}
  for _, token in ipairs(tokens_in(run, { dead = true })) do
    if token[T_OUTCOME] == 'failed' or token[T_OUTCOME] == 'cancelled' then
      again[#again + 1] = token
      names[#again] = place(token[T_NODE], token[T_SCOPE])
    end
  end
  if #again == 0 and not run[R_STARTED_MS] then
    return conflict('was cancelled before it was started: create a new run in its place')
  end
  if #again == 0 then return conflict('has nothing left to run again') end
  reprocess_dead_letters()
  run[R_STATUS], run[R_ENDED_MS], run[R_ERROR], run[R_DEADLINE_MS] = 'RUNNING', nil, nil,
    deadline_ms and now + deadline_ms or nil
  run[R_GENERATION], run[R_COUNTER] = run[R_GENERATION] + 1, #again
  for _, token in ipairs(again) do
    change_token(token)
    token[T_STATE], token[T_OUTCOME], token[T_DUE_MS] = 'ready', '', now
    token[T_ATTEMPT], token[T_EXPIRY], token[T_LEASE], token[T_LANE] = 1, nil, '', nil
    token[T_LOST] = nil
  end
  append(run, '{"type":"run.retried"' .. number('generation', run[R_GENERATION])
    .. list('tokens', names) .. number('counter', run[R_COUNTER], 0) .. text('by', by)
    .. number('deadline_ms', run[R_DEADLINE_MS]) .. '}')
end

function CHANGES.plan(plan, deliveries, by)
  if TERMINAL[run[R_STATUS]] then return forbids('patched') end
  local to = {}
  withdrawn = {}
  -- Before its start, a run has no settled node that could deliver anything.
  for _, one in ipairs(run[R_STATUS] ~= 'PENDING' and deliveries or {}) do
    local source, scope, delivery = unpack(one, 1, 3)
    local token = load_token(run_id, source, scope)
    local sent = deliver_all(run, source, scope, token and token[T_EVENT] or 0, { delivery },
      token and token[T_HOP] + 1 or 0)
    for _, fragment in ipairs(sent) do to[#to + 1] = '[' .. quote(source) .. ',' .. fragment .. ']' end
  end
  run[R_PLAN] = plan
  append(run, '{"type":"run.patched","plan":' .. quote(plan) .. list('to', to)
    .. number('counter', run[R_COUNTER], 0) .. text('by', by) .. list('withdrawn', withdrawn) .. '}')
end

if expected and run[R_SEQ] ~= expected then
  return conflict(format('has moved on to event %d (expected %d)', run[R_SEQ], expected))
end
change_run(run)
local refused = CHANGES[kind](unpack(asked, 6, 9))
if refused then return refused end
local wake = commit()
return { 'run', run_reply(run), wake }
