-- create_runs: all in one step. request: now_ms or nil, runs. A run: id, workflow, plan, tenant,
-- input, entries or nil, deadline_ms or nil, idempotency key or nil, tags, the token that starts it
-- {run, node, scope, lease} or nil, version or nil, tag or nil, where its blobs were kept aside
-- (nil: nowhere) and how many.
-- Result: {answers, whether there is work}; an answer is {'run', run} or
--   {'conflict', run id, message, status, seq}. {'gone'}: some blobs are not there any more.

local given, asked = unpack(unpack_row(request), 1, 2)
now = clock(given)
--: By "tenant \0 key": runs that this call creates under an idempotency key.
local keys = {}

local function known_run(new)
  local run = load_run(new[1])
  if run or not new[8] then return run end
  local key = new[4] .. '\0' .. new[8]
  local id = keys[key] or call('HGET', IDEMPOTENCY, key)
  return id and load_run(id)
end

local answers, created = {}, {}
for i, new in ipairs(asked) do
  local known = known_run(new)
  if not known and not are_staged(new[13], new[14]) then return { 'gone' } end
  answers[i] = known and check_same(known, new) or create_run(new)
  created[i] = not known and answers[i][1] == 'run'
  if created[i] and new[8] then keys[new[4] .. '\0' .. new[8]] = new[1] end
end
expect(IDEMPOTENCY, 'hash')
local wake = commit()
for i, new in ipairs(asked) do
  if created[i] then
    keep_staged(new[1], new[13])
  elseif new[13] then
    call('UNLINK', stage_key(new[13]))
  end
end
for key, run in pairs(keys) do call('HSET', IDEMPOTENCY, key, run) end
for _, answer in ipairs(answers) do
  if answer[1] == 'run' then answer[2] = run_reply(answer[2]) end
end
return { answers, wake }
