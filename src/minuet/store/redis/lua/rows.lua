-- Rows: Redis keys, rows as Lua tables, and the cache of what this call has loaded.
--
-- KEYS[1] is the partition's name, such as `minuet:{p0}`; all keys begin with it. All that belongs
-- to one run lies in one hash, so reading its row has checked the only key of the run:
--
--   R  the run: what changes         t<node>\0<scope>            a token
--   I  the run: what never changes   j<node>\0<scope>            a join
--   i  its input                     a<node>\0<scope>\0<source>  an arrival at a join
--   o  its input at the creation,    n<node>\0<scope>\0<number>  a live arrival that its node gets
--      when it was changed since     s<node>\0<scope>\0<name>    a step
--   e<seq>  an event                 d<generation>               a dead letter
--   m  the events that a record has
--
-- Payloads are opaque here: they are only ever concatenated.

local base, call = KEYS[1], redis.call

--: Whether events go to a record as well.
local recorded = ARGV[2] ~= nil
local pack, unpack_row = cmsgpack.pack, cmsgpack.unpack
local concat, find, format, sub = table.concat, string.find, string.format, string.sub

local LEASE_MS_MAX = 3600000
local TERMINAL = { COMPLETED = true, FAILED = true, CANCELLED = true }
local LIVE = { ready = true, leased = true, waiting = true }

--: As many values as one command is given.
local PORTION = 2000

local LEASES, TIMERS, DEADLINES = base .. ':leases', base .. ':timers', base .. ':deadlines'
local ENDED, QUEUES, SLOTS = base .. ':ended', base .. ':queues', base .. ':slots'
local WAKE, IDEMPOTENCY = base .. ':wake', base .. ':idempotency'
local UNRECORDED, BORN = base .. ':unrecorded', base .. ':born'

local function run_key(run) return base .. ':run:' .. run end
local function stage_key(name) return base .. ':stage:' .. name end
local function scopes_key(run) return base .. ':scopes:' .. run end
local function session_key(session) return base .. ':session:' .. session end
local function ready_key(tenant, queue) return base .. ':ready:' .. tenant .. '\0' .. queue end
local function aside_key(tenant, queue) return base .. ':aside:' .. tenant .. '\0' .. queue end
local function waiters_key(slot) return base .. ':waiters:' .. slot end
local function dead_key(tenant, status) return base .. ':dead:' .. tenant .. '\0' .. status end

local function waiting_key(tenant, kind, key)
  local name = base .. ':waiting:' .. tenant .. '\0' .. kind
  return key and name .. '\0' .. key or name
end

local function runs_key(tenant, status, workflow)
  local name = base .. ':runs:' .. tenant .. '\0' .. status
  return workflow and name .. '\0' .. workflow or name
end

--: The time of this step, in milliseconds.
local now

local function clock(given)
  if given then return given end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The server takes its collation from its environment, and `<` follows it.
local bytewise = not ('a' < 'B')

local function precedes(a, b)
  if bytewise then return a < b end
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local function parts(member)
  local first = find(member, '\0', 1, true)
  local second = find(member, '\0', first + 1, true)
  return sub(member, 1, first - 1), sub(member, first + 1, second - 1), sub(member, second + 1)
end

-- Values of many fields, in portions.
local function get_fields(key, fields)
  local found = {}
  for first = 1, #fields, PORTION do
    local last = math.min(first + PORTION - 1, #fields)
    local values = call('HMGET', key, unpack(fields, first, last))
    for i = 1, #values do found[first + i - 1] = values[i] end
  end
  return found
end

-- Runs and tokens by name; false: there is none.
local runs, tokens = {}, {}

-- Tables are made with all their fields at once: one that grows is copied at each power of two. For
-- the same reason a token has no more than 32 fields.
local function parse_run(run, data)
  local tenant, workflow, plan, status, counter, seq, generation, started_ms, ended_ms, deadline_ms,
    error, dead_letters, scoped = unpack_row(data)
  return {
    run = run, key = run_key(run), tokens = {}, out = {}, outputs = {}, tenant = tenant,
    workflow = workflow, plan = plan, status = status, counter = counter, seq = seq,
    generation = generation, started_ms = started_ms, ended_ms = ended_ms,
    deadline_ms = deadline_ms, error = error, dead_letters = dead_letters, scoped = scoped,
    changed = false, old_status = nil, old_deadline = nil, old_ended = nil,
  }
end

local function pack_run(row)
  return pack(row.tenant, row.workflow, row.plan, row.status, row.counter, row.seq, row.generation,
    row.started_ms, row.ended_ms, row.deadline_ms, row.error, row.dead_letters, row.scoped)
end

local function parse_token(run, node, scope, member, data)
  local queue, state, outcome, skip, due_ms, hop, attempt, expiry, delivery, lease, session,
    taken_ms, source, source_scope, reads, cursor, wait, wait_key, resolution, event, lane, slot,
    slot_limit, source_event, joined = unpack_row(data)
  return {
    run = run.run, node = node, scope = scope, member = member, tenant = run.tenant, queue = queue,
    state = state, outcome = outcome, skip = skip, due_ms = due_ms, hop = hop, attempt = attempt,
    expiry = expiry, delivery = delivery, lease = lease, session = session, taken_ms = taken_ms,
    source = source, source_scope = source_scope, reads = reads, cursor = cursor, wait = wait,
    wait_key = wait_key, resolution = resolution, event = event, lane = lane, slot = slot,
    slot_limit = slot_limit, source_event = source_event, joined = joined, changed = false,
    was_leased = false,
  }
end

local function pack_token(row)
  return pack(row.queue, row.state, row.outcome, row.skip, row.due_ms, row.hop, row.attempt,
    row.expiry, row.delivery, row.lease, row.session, row.taken_ms, row.source, row.source_scope,
    row.reads, row.cursor, row.wait, row.wait_key, row.resolution, row.event, row.lane, row.slot,
    row.slot_limit, row.source_event, row.joined)
end

local function load_run(run)
  local row = runs[run]
  if row == nil then
    local data = call('HGET', run_key(run), 'R')
    row = data and parse_run(run, data)
    runs[run] = row
  end
  return row
end

local function keep_token(run, node, scope, member, data)
  local row = data and parse_token(run, node, scope, member, data)
  tokens[member] = row
  if row then run.tokens[#run.tokens + 1] = row end
  return row
end

-- A token with its run: most calls need both, and get them in one command.
local function load_token(run_id, node, scope)
  local member = run_id .. '\0' .. node .. '\0' .. scope
  local token, run = tokens[member], runs[run_id]
  if token ~= nil then return token, run end
  local field = 't' .. node .. '\0' .. scope
  if run == nil then
    local found = call('HMGET', run_key(run_id), 'R', field)
    run = found[1] and parse_run(run_id, found[1])
    runs[run_id] = run
    if not run then return false, false end
    return keep_token(run, node, scope, member, found[2]), run
  elseif not run then
    return false, false
  end
  return keep_token(run, node, scope, member, call('HGET', run.key, field)), run
end

local function fields_of(run, kind)
  local fields = {}
  for _, field in ipairs(call('HKEYS', run.key)) do
    if sub(field, 1, 1) == kind then fields[#fields + 1] = field end
  end
  return fields
end

local function load_all_tokens(run)
  if run.all_loaded or run.new then return end
  run.all_loaded = true
  local fields = fields_of(run, 't')
  local values = get_fields(run.key, fields)
  for i, field in ipairs(fields) do
    local member = run.run .. '\0' .. sub(field, 2)
    if tokens[member] == nil then
      local _, node, scope = parts(member)
      keep_token(run, node, scope, member, values[i])
    end
  end
end

-- A run as callers get it: rows as they are stored.
local function run_reply(run)
  local found = call('HMGET', run.key, 'I', 'i')
  return { run.run, pack_run(run), run.cold or found[1], run.input or found[2] }
end
