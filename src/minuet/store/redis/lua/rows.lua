-- Rows: Redis keys, rows as Lua arrays, and the cache of what this call has loaded.
--
-- The only key of a call is the partition's name, such as `minuet:{p0}`; all keys begin with it. All
-- that belongs to one run lies in one hash, so reading its row has checked the only key of the run:
--
--   R  the run: what changes         t<node>\0<scope>            a token
--   I  the run: what never changes   j<node>\0<scope>            a join
--   i  its input                     a<node>\0<scope>\0<source>  an arrival at a join
--   o  its input at the creation,    n<node>\0<scope>\0<number>  a live arrival that its node gets
--      when it was changed since     s<node>\0<scope>\0<name>    a step
--   e<seq>  an event                 d<generation>               a dead letter
--   m  the events that a record has
--
-- Payloads are opaque here: they are only ever concatenated. The columns of rows are named in
-- `columns.py`. A row is stored as numbers, then strings with their lengths, and then, packed, the
-- columns that most rows do not have: nil is their default.

local LEASE_MS_MAX = 3600000
local RETURNS_MAX = 10
local TERMINAL = { COMPLETED = true, FAILED = true, CANCELLED = true }
local LIVE = { ready = true, leased = true, waiting = true }

--: As many values as one command is given.
local PORTION = 2000

--: The partition, and the names of its keys.
local base
local LEASES, TIMERS, DEADLINES, ENDED, QUEUES, SLOTS, IDEMPOTENCY, UNLOGGED, BORN, RECORD, BEATS
local WAKE, ENDS
local RUN, READY, ASIDE

local function use_partition(name)
  if name == base then return end
  base = name
  LEASES, TIMERS, DEADLINES = base .. ':leases', base .. ':timers', base .. ':deadlines'
  ENDED, QUEUES, SLOTS = base .. ':ended', base .. ':queues', base .. ':slots'
  WAKE, ENDS, IDEMPOTENCY = base .. ':wake', base .. ':ends', base .. ':idempotency'
  UNLOGGED, BORN, RECORD = base .. ':unrecorded', base .. ':born', base .. ':record'
  BEATS = base .. ':beats'
  RUN, READY, ASIDE = base .. ':run:', base .. ':ready:', base .. ':aside:'
end

--: What a server gives to functions, but only once it has loaded them.
local call, pack, unpack_row, unpack_limit, struct_pack, struct_unpack
local concat, find, format, sub

local function use_server()
  if call then return end
  call = redis.call
  pack, unpack_row, unpack_limit = cmsgpack.pack, cmsgpack.unpack, cmsgpack.unpack_limit
  struct_pack, struct_unpack = struct.pack, struct.unpack
  concat, find, format, sub = table.concat, string.find, string.format, string.sub
end

--: Whether events go to a record as well.
local logged
--: The time of this step, in milliseconds.
local now
--: Runs and tokens by name; false: there is none.
local runs, tokens

local function begin_rows(partition, is_logged)
  use_server()
  use_partition(partition)
  logged, now, runs, tokens = is_logged, nil, {}, {}
end

local function stage_key(name) return base .. ':stage:' .. name end
local function scopes_key(name) return base .. ':scopes:' .. name end
local function blobs_key(name) return base .. ':blobs:' .. name end

-- Whether as many fields as this are still where they were kept aside for a run (nil: nowhere).
local function are_staged(place, count)
  return not place or call('HLEN', stage_key(place)) == count
end

-- Give a run the blobs that were kept aside for it.
local function keep_staged(name, place)
  if not place then return end
  local from, to = stage_key(place), blobs_key(name)
  if call('EXISTS', to) == 0 then
    call('RENAME', from, to)
    call('PERSIST', to)
    return
  end
  local blobs = call('HGETALL', from)
  for i = 1, #blobs, 2 do call('HSET', to, blobs[i], blobs[i + 1]) end
  call('UNLINK', from)
end
local function session_key(session) return base .. ':session:' .. session end
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

local RUN_ROW = '>dI4I4I4I4c0I4c0I4c0I4c0'
local TOKEN_ROW = '>ddI4I4I4I4I4I4c0I4c0I4c0I4c0I4c0I4c0'

--: A time that there is not.
local NEVER = -9007199254740992

--: What a token reads when its row does not say that in a way that can be understood: the packed
-- form of `UNREADABLE_READS` in `store/lenient.py`.
local UNREADABLE_READS = '\145\146\160\160'

--: The types of the columns in the tail of a row: a column of another type is damaged.
local RUN_TAIL = { 'number', 'boolean', 'number', 'number', 'string' }
local TOKEN_TAIL = { 'boolean', 'string', 'string', 'boolean', 'string', 'number', 'number',
  'string', 'string', 'string', 'string', 'number', 'table' }

-- Forget the columns of a tail that are damaged: all of them, unless it could be unpacked. Whether
-- all were sound.
local function check_tail(row, tail, kinds, unpacked)
  local sound = unpacked
  for i, kind in ipairs(kinds) do
    local value = row[tail + i]
    if value ~= nil and not (unpacked and type(value) == kind) then
      row[tail + i], sound = nil, false
    end
  end
  return sound
end

local function read_run_row(name, data)
  local run = { name, RUN .. name, false, 0, false, false, false, false, false, false, false, false,
    struct_unpack(RUN_ROW, data) }
  if run[R_STARTED_MS] == NEVER then run[R_STARTED_MS] = nil end
  if run[R_TAIL] <= #data then
    local sound
    sound, run[R_DEADLINE_MS], run[R_SCOPED], run[R_DEAD_LETTERS], run[R_ENDED_MS], run[R_ERROR] =
      pcall(unpack_row, sub(data, run[R_TAIL]))
    check_tail(run, R_TAIL, RUN_TAIL, sound)
  end
  return run
end

-- A run from its row; false when its row cannot be read, as if there was none: one damaged run must
-- not stop a call that is about others as well.
local function parse_run(name, data)
  local sound, run = pcall(read_run_row, name, data)
  return sound and run
end

local function pack_run(run)
  local tenant, workflow, plan, status =
    run[R_TENANT], run[R_WORKFLOW], run[R_PLAN], run[R_STATUS]
  local row = struct_pack(RUN_ROW, run[R_STARTED_MS] or NEVER, run[R_COUNTER], run[R_SEQ],
    run[R_GENERATION], #tenant, tenant, #workflow, workflow, #plan, plan, #status, status)
  if next(run, R_TAIL) == nil then return row end
  return row .. pack(unpack(run, R_TAIL + 1, R_LAST))
end

local function read_token_row(run, node, scope, member, data)
  local token = { member, run, node, scope, false, false, false, struct_unpack(TOKEN_ROW, data) }
  if token[T_DUE_MS] == NEVER then token[T_DUE_MS] = nil end
  if token[T_TAIL] <= #data then
    local sound
    sound, token[T_SKIP], token[T_SOURCE_SCOPE], token[T_READS], token[T_JOINED], token[T_LANE],
      token[T_EXPIRY], token[T_CURSOR], token[T_WAIT], token[T_WAIT_KEY], token[T_RESOLUTION],
      token[T_SLOT], token[T_SLOT_LIMIT], token[T_LOST] =
      pcall(unpack_row, sub(data, token[T_TAIL]))
    if not check_tail(token, T_TAIL, TOKEN_TAIL, sound) then
      token[T_READS] = UNREADABLE_READS
      if token[T_STATE] == 'waiting' then token[T_WAIT] = token[T_WAIT] or '' end
    end
  end
  return token
end

-- The same for a token.
local function parse_token(run, node, scope, member, data)
  local sound, token = pcall(read_token_row, run, node, scope, member, data)
  return sound and token
end

local function pack_token(token)
  local state, outcome, lease = token[T_STATE], token[T_OUTCOME], token[T_LEASE]
  local session, queue, source = token[T_SESSION], token[T_QUEUE], token[T_SOURCE]
  local row = struct_pack(TOKEN_ROW, token[T_DUE_MS] or NEVER, token[T_TAKEN_MS], token[T_HOP],
    token[T_ATTEMPT], token[T_DELIVERY], token[T_EVENT], token[T_SOURCE_EVENT], #state, state,
    #outcome, outcome, #lease, lease, #session, session, #queue, queue, #source, source)
  if next(token, T_TAIL) == nil then return row end
  return row .. pack(unpack(token, T_TAIL + 1, T_LAST))
end

local function load_run(name)
  local run = runs[name]
  if run == nil then
    local data = call('HGET', RUN .. name, 'R')
    run = data and parse_run(name, data)
    runs[name] = run
  end
  return run
end

local function keep_token(run, node, scope, member, data)
  local token = data and parse_token(run, node, scope, member, data)
  tokens[member] = token
  return token
end

-- A token with its run: most calls need both, and get them in one command.
local function load_token(name, node, scope)
  local member = name .. '\0' .. node .. '\0' .. scope
  local token, run = tokens[member], runs[name]
  if token ~= nil then return token, run end
  local field = 't' .. node .. '\0' .. scope
  if run == nil then
    local found = call('HMGET', RUN .. name, 'R', field)
    run = found[1] and parse_run(name, found[1])
    runs[name] = run
    if not run then return false, false end
    return keep_token(run, node, scope, member, found[2]), run
  elseif not run then
    return false, false
  end
  return keep_token(run, node, scope, member, call('HGET', run[R_KEY], field)), run
end

local function fields_of(run, kind)
  local fields = {}
  for _, field in ipairs(call('HKEYS', run[R_KEY])) do
    if sub(field, 1, 1) == kind then fields[#fields + 1] = field end
  end
  return fields
end

-- All tokens that are stored of a run.
local function stored_tokens(run)
  local found = run.stored_tokens
  if found then return found end
  found = {}
  run.stored_tokens = found
  if run[R_NEW] then return found end
  local fields = fields_of(run, 't')
  for i, data in ipairs(get_fields(run[R_KEY], fields)) do
    local member = run[R_NAME] .. '\0' .. sub(fields[i], 2)
    local token = tokens[member]
    if token == nil then
      local _, node, scope = parts(member)
      token = keep_token(run, node, scope, member, data)
    end
    if token then found[#found + 1] = token end
  end
  return found
end

-- What never changes of a run, and its input.
local function load_origin(run)
  if run[R_COLD] and run[R_INPUT] then return end
  local found = call('HMGET', run[R_KEY], 'I', 'i')
  run[R_COLD], run[R_INPUT] = run[R_COLD] or found[1], run[R_INPUT] or found[2]
end

--: What stands for the error of a run whose row cannot be read: see `store/lenient.py`.
local UNREADABLE_ERROR =
  '{"code":"unreadable","message":"not readable in the store: the row of the run"}'

-- A run whose row cannot be read, as callers get it: false when there is none of this tenant.
local function damaged_reply(tenant, name)
  local row, origin, input = unpack(call('HMGET', RUN .. name, 'R', 'I', 'i'))
  if not row then return false end
  for _, status in ipairs({ 'PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED' }) do
    if call('ZSCORE', runs_key(tenant, status), name) then
      local shown = struct_pack(RUN_ROW, NEVER, 0, 0, 1, #tenant, tenant, 0, '', 0, '', #status,
        status) .. pack(nil, nil, nil, nil, UNREADABLE_ERROR)
      return { name, shown, origin or '', input or 'null' }
    end
  end
  return false
end

-- A run as callers get it: rows as they are stored.
local function run_reply(run)
  load_origin(run)
  return { run[R_NAME], pack_run(run), run[R_COLD], run[R_INPUT] }
end
