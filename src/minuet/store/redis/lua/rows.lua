-- Rows as Lua arrays, and the cache of what this call has loaded.
--
-- All that belongs to one run is in one hash, so reading its row has checked the only key of the run.
-- `columns.py` says how its fields begin (F_…) and which columns the rows have (R_…, T_…, …); names
-- become numbers before the server is given this text (`script.py`). Payloads are opaque here: they
-- are only ever concatenated.

--: Whether events go to a log as well.
local logged
--: Runs and tokens by name; false: there is none.
local runs, tokens

--: By string: the same with its size in front, as rows have it. Most rows have the same ones, so they
-- are kept from call to call; at so many, all are forgotten.
local sized

-- Exports. Everything else stays local to this block.
local begin_rows

do

local SIZED_MAX = 2000
local sized_count = SIZED_MAX

local WITH_SIZE = { __index = function(known, text)
  local with_size = struct_pack('>I4', #text) .. text
  known[text], sized_count = with_size, sized_count + 1
  return with_size
end }

function begin_rows(partition, is_logged)
  use_server()
  use_partition(partition)
  logged, now, runs, tokens = is_logged, nil, {}, {}
  if sized_count >= SIZED_MAX then sized, sized_count = setmetatable({}, WITH_SIZE), 0 end
end

end

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

-- Exports. Everything else stays local to this block.
local parse_run, parse_token

do

-- What a token reads when that part of its row cannot be decoded: the packed
-- form of `UNREADABLE_READS` in `store/lenient.py`.
local UNREADABLE_READS = '\145\146\160\160'

--: The types of the columns in the tail of a row: a column of another type is damaged.
local RUN_TAIL, TOKEN_TAIL = R_TAIL_KINDS, T_TAIL_KINDS

-- Give a row the columns of its tail that are not damaged. Whether all were sound. `at`: the place
-- in front of the tail. A nil is not set: Lua would make room for it.
local function read_tail(row, data, at, kinds)
  local found = { pcall(unpack_row, sub(data, row[at])) }
  local sound = found[1]
  for i = 1, sound and #kinds or 0 do
    local value = found[i + 1]
    if value ~= nil then
      if type(value) == kinds[i] then row[at + i] = value else sound = false end
    end
  end
  return sound
end

local function read_run_row(name, key, data)
  local run = { head_run{ name = name, key = key }, struct_unpack(R_FORMAT, data) }
  if run[R_STARTED_MS] == L_NEVER then run[R_STARTED_MS] = nil end
  if run[R_TAIL] <= #data then read_tail(run, data, R_TAIL, RUN_TAIL) end
  return run
end

-- A run from its row; false when its row cannot be read, as if there was none: one damaged run must
-- not stop a call that is about others as well.
function parse_run(name, key, data)
  local sound, run = pcall(read_run_row, name, key, data)
  return sound and run
end

local function read_token_row(run, node, scope, member, field, data)
  local token = {
    head_token{ member = member, run = run, node = node, scope = scope, field = field },
    struct_unpack(T_FORMAT, data),
  }
  if token[T_DUE_MS] == L_NEVER then token[T_DUE_MS] = nil end
  if token[T_TAIL] <= #data and not read_tail(token, data, T_TAIL, TOKEN_TAIL) then
    token[T_READS] = UNREADABLE_READS
    if token[T_STATE] == 'waiting' then token[T_WAIT] = token[T_WAIT] or '' end
  end
  return token
end

-- The same for a token.
function parse_token(run, node, scope, member, field, data)
  local sound, token = pcall(read_token_row, run, node, scope, member, field, data)
  return sound and token
end

end

-- Exports. Everything else stays local to this block.
local pack_run, pack_token

do

--: By number: as many packed nils.
local NILS = { [0] = '' }
for count = 1, R_LAST + T_LAST do NILS[count] = NILS[count - 1] .. '\192' end

-- The columns from `first` to `last`, packed. Most are nil, and `pack` makes a string of each.
local function pack_tail(row, first, last)
  local packed, nils = '', 0
  for i = first, last do
    local value = row[i]
    if value == nil then
      nils = nils + 1
    else
      packed, nils = packed .. NILS[nils] .. pack(value), 0
    end
  end
  return packed .. NILS[nils]
end

function pack_run(run)
  local row = struct_pack(R_NUMBERS_FORMAT, R_NUMBERS(run)) .. R_STRINGS(run)
  if next(run, R_TAIL) == nil then return row end
  return row .. pack_tail(run, R_TAIL + 1, R_LAST)
end

function pack_token(token)
  local row = struct_pack(T_NUMBERS_FORMAT, T_NUMBERS(token)) .. T_STRINGS(token)
  if next(token, T_TAIL) == nil then return row end
  return row .. pack_tail(token, T_TAIL + 1, T_LAST)
end

end

local function parse_join(data)
  local join = { unpack_row(data) }
  join[J_PENDING] = {}
  return join
end

local function load_run(name)
  local run = runs[name]
  if run == nil then
    local key = RUN .. name
    local data = call('HGET', key, F_RUN)
    run = data and parse_run(name, key, data)
    runs[name] = run
  end
  return run
end

local function keep_token(run, node, scope, member, field, data)
  local token = data and parse_token(run, node, scope, member, field, data)
  tokens[member] = token
  return token
end

-- A token with its run: most calls need both, and get them in one command.
local function load_token(name, node, scope)
  local member = name .. '\0' .. node .. '\0' .. scope
  local token, run = tokens[member], runs[name]
  if token ~= nil then return token, run end
  local field = F_TOKEN .. node .. '\0' .. scope
  if run == nil then
    local key = RUN .. name
    local found = call('HMGET', key, F_RUN, field)
    run = found[1] and parse_run(name, key, found[1])
    runs[name] = run
    if not run then return false, false end
    return keep_token(run, node, scope, member, field, found[2]), run
  elseif not run then
    return false, false
  end
  return keep_token(run, node, scope, member, field, call('HGET', run[R_KEY], field)), run
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
  local fields = fields_of(run, F_TOKEN)
  for i, data in ipairs(get_fields(run[R_KEY], fields)) do
    local member = run[R_NAME] .. '\0' .. sub(fields[i], 2)
    local token = tokens[member]
    if token == nil then
      local _, node, scope = parts(member)
      token = keep_token(run, node, scope, member, fields[i], data)
    end
    if token then found[#found + 1] = token end
  end
  return found
end

-- What never changes of a run, and its input.
local function load_origin(run)
  if run[R_COLD] and run[R_INPUT] then return end
  local found = call('HMGET', run[R_KEY], F_ORIGIN, F_INPUT)
  run[R_COLD], run[R_INPUT] = run[R_COLD] or found[1], run[R_INPUT] or found[2]
end

--: Runs as callers get them: functions in a table, because Lua has room for 200 locals.
local replies = {}

-- A run whose row cannot be read, as callers get it: false when there is none of this tenant.
function replies.damaged(tenant, name)
  local row, origin, input = unpack(call('HMGET', RUN .. name, F_RUN, F_ORIGIN, F_INPUT))
  if not row then return false end
  for _, status in ipairs(L_STATUSES) do
    if call('ZSCORE', runs_key(tenant, status), name) then
      local shown = new_run{ name = name, tenant = tenant, workflow = '', plan = '',
        status = status, error = UNREADABLE_ERROR }
      return { name, pack_run(shown), origin or '', input or 'null' }
    end
  end
  return false
end

-- A run as callers get it: rows as they are stored.
function replies.run(run)
  load_origin(run)
  return { run[R_NAME], pack_run(run), run[R_COLD], run[R_INPUT] }
end

-- The runs in an index, by name, as callers get them. request: after, limit.
function replies.named(index, request)
  local after, limit = unpack(unpack_row(request), 1, 2)
  local answers = {}
  if limit <= 0 then return answers end
  for _, name in ipairs(call('ZRANGEBYLEX', index, '(' .. after, '+', 'LIMIT', 0, limit)) do
    local run = load_run(name)
    if run then answers[#answers + 1] = replies.run(run) end
  end
  return answers
end
