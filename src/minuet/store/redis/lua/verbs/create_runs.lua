-- create_runs: all in one step. request: now_ms or nil, runs. A run: id, workflow, plan, tenant,
-- input, entries or nil, deadline_ms or nil, idempotency key or nil, tags, parent or nil,
-- where its blobs were kept aside (nil: nowhere) and how many.
-- Result: {answers, whether there is work}; an answer is {'run', run} or
--   {'conflict', run id, message, status, seq}. {'gone'}: some blobs are not there any more.

local given, asked = unpack(unpack_row(request), 1, 2)
now = clock(given)
local NOTHING = '{}'
local keys = {}

local function known_run(new)
  local run = load_run(new[1])
  if run or not new[8] then return run end
  local key = new[4] .. '\0' .. new[8]
  local id = keys[key] or call('HGET', IDEMPOTENCY, key)
  return id and load_run(id)
end

local function conflict(run, message)
  return { 'conflict', run[R_NAME], message, run[R_STATUS], run[R_SEQ] }
end

local function check_same(known, new)
  if known[R_TENANT] ~= new[4] then
    return { 'conflict', new[1], 'this id cannot be used', '', 0 }
  end
  local cold, input = known[R_COLD], known[R_INPUT]
  if not known[R_NEW] then
    local found = call('HMGET', known[R_KEY], 'I', 'i', 'o')
    cold, input = found[1], found[3] or found[2]
  end
  local workflow, plan = unpack_row(cold)
  if workflow == new[2] and plan == new[3] and input == new[5] then return { 'run', known } end
  return conflict(known,
    'exists with the same id or idempotency key, but another workflow or input')
end

local function create_run(new)
  local id, workflow, plan, tenant, input, entries, deadline_ms, key, tags, parent =
    unpack(new, 1, 10)
  local cold = pack(workflow, plan, now, tags, key, parent)
  local run = { id, RUN .. id, false, 0, false, false, true, false, false, false, cold, input,
    nil, 0, 0, 1, tenant, workflow, plan, 'PENDING', 0 }
  runs[id] = run
  put(run, 'I', cold)
  put(run, 'i', input)
  if key then keys[tenant .. '\0' .. key] = id end
  append(run, '{"type":"run.created","workflow":' .. quote(workflow) .. ',"plan":' .. quote(plan)
    .. json('input', input) .. (tags ~= NOTHING and json('tags', tags) or '')
    .. (parent and ',"parent":' .. quote(parent) or '') .. '}')
  if entries then start(run, entries, deadline_ms) end
  return { 'run', run }
end

local answers, created = {}, {}
for i, new in ipairs(asked) do
  local known = known_run(new)
  if not known and not are_staged(new[11], new[12]) then return { 'gone' } end
  created[i] = not known
  answers[i] = known and check_same(known, new) or create_run(new)
end
expect(IDEMPOTENCY, 'hash')
local wake = commit()
for i, new in ipairs(asked) do
  if created[i] then
    keep_staged(new[1], new[11])
  elseif new[11] then
    call('UNLINK', stage_key(new[11]))
  end
end
for key, run in pairs(keys) do call('HSET', IDEMPOTENCY, key, run) end
for _, answer in ipairs(answers) do
  if answer[1] == 'run' then answer[2] = run_reply(answer[2]) end
end
return { answers, wake }
