-- change_run: from outside, by compare-and-set on the run's event number.
-- ARGV[1]: now_ms or nil, tenant, run, expected seq or nil, kind, then what the kind needs.
-- Result: {'missing'}, {'conflict', message, status, seq} or {'run', run, whether there is work}.

local asked = unpack_row(ARGV[1])
local given, tenant, run_id, expected, kind = unpack(asked, 1, 5)
now = clock(given)

local run = load_run(run_id)
if not run or run.tenant ~= tenant then return { 'missing' } end

local function conflict(message) return { 'conflict', message, run.status, run.seq } end

local function forbids(verb) return conflict('is ' .. run.status .. ' and cannot be ' .. verb) end

local function set_lanes(from, to)
  for _, token in ipairs(tokens_in(run, { ready = true })) do
    if token.lane == from then
      change_token(token)
      token.lane = to
    end
  end
end

local CHANGES = {}

function CHANGES.start(entries, deadline_ms, input)
  if run.status ~= 'PENDING' then return forbids('started') end
  start(run, entries, deadline_ms, input)
end

function CHANGES.cancel(reason, by, error)
  if TERMINAL[run.status] then return forbids('cancelled') end
  cancel(run, reason, by, error)
end

function CHANGES.pause(by)
  if run.status ~= 'RUNNING' then return forbids('paused') end
  run.status = 'PAUSED'
  set_lanes('', 'pause')
  append(run, '{"type":"run.paused"' .. text('by', by) .. '}')
end

function CHANGES.resume(by)
  if run.status ~= 'PAUSED' then return forbids('resumed') end
  run.status = 'RUNNING'
  set_lanes('pause', '')
  append(run, '{"type":"run.resumed"' .. text('by', by) .. '}')
end

local function reprocess_dead_letters()
  local field = 'd' .. run.generation
  local data = call('HGET', run.key, field)
  if not data then return end
  local letter = { unpack_row(data) }
  if letter[11] ~= 'pending' then return end
  letter[11] = 'reprocessed'
  put(run, field, pack(unpack(letter, 1, 11)))
  local member = run.run .. '\0' .. letter[1] .. '\0' .. letter[2] .. format('\0%08d', letter[3])
  leave(dead_key(tenant, 'pending'), member)
  enter(dead_key(tenant, 'reprocessed'), member, letter[10])
end

function CHANGES.retry(by)
  if run.status ~= 'FAILED' and run.status ~= 'CANCELLED' then return forbids('retried') end
  local again, names = {}, {}
  for _, token in ipairs(tokens_in(run, { dead = true })) do
    if token.outcome == 'failed' or token.outcome == 'cancelled' then
      again[#again + 1] = token
      names[#again] = place(token.node, token.scope)
    end
  end
  if #again == 0 then return conflict('has nothing left to run again') end
  reprocess_dead_letters()
  run.status, run.ended_ms, run.error, run.deadline_ms = 'RUNNING', nil, nil, nil
  run.generation, run.counter = run.generation + 1, #again
  for _, token in ipairs(again) do
    change_token(token)
    token.state, token.outcome, token.due_ms = 'ready', '', now
    token.attempt, token.expiry, token.lease, token.lane = 1, 0, '', ''
  end
  append(run, '{"type":"run.retried"' .. number('generation', run.generation)
    .. list('tokens', names) .. number('counter', run.counter, 0) .. text('by', by) .. '}')
end

function CHANGES.plan(plan, deliveries, by)
  if TERMINAL[run.status] then return forbids('patched') end
  local to, withdrawn = {}, {}
  -- Before its start, a run has no settled node that could deliver anything.
  for _, one in ipairs(run.status ~= 'PENDING' and deliveries or {}) do
    local source, scope, delivery = unpack(one, 1, 3)
    local token = load_token(run_id, source, scope)
    local sent, gone = deliver_all(run, source, scope, token and token.event or 0, { delivery },
      token and token.hop + 1 or 0)
    for _, fragment in ipairs(sent) do to[#to + 1] = '[' .. quote(source) .. ',' .. fragment .. ']' end
    for _, name in ipairs(gone) do withdrawn[#withdrawn + 1] = name end
  end
  run.plan = plan
  append(run, '{"type":"run.patched","plan":' .. quote(plan) .. list('to', to)
    .. number('counter', run.counter, 0) .. text('by', by) .. list('withdrawn', withdrawn) .. '}')
end

if expected and run.seq ~= expected then
  return conflict(format('has moved on to event %d (expected %d)', run.seq, expected))
end
change_run(run)
local refused = CHANGES[kind](unpack(asked, 6, 9))
if refused then return refused end
local wake = commit()
return { 'run', run_reply(run), wake }
