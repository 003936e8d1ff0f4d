-- create_runs: all in one step. request: now_ms or nil, runs. A run: its values
-- (`messages.py`).
-- Result: {answers, whether there is work}; an answer is {'run', run} or
--   {'conflict', run id, message, status, seq}. {'gone'}: some blobs are not there any more.

local given, asked = unpack(unpack_row(request), 1, 2)
now = clock(given)
--: By "tenant \0 key": runs that this call creates under an idempotency key.
local keys = {}

local function idempotency_of(new) return new[NEW_TENANT] .. '\0' .. new[NEW_IDEMPOTENCY_KEY] end

local function known_run(new)
  local run = load_run(new[NEW_RUN])
  if run or not new[NEW_IDEMPOTENCY_KEY] then return run end
  local key = idempotency_of(new)
  local id = keys[key] or call('HGET', KEY.idempotency, key)
  return id and load_run(id)
end

local answers, created = {}, {}
for i, new in ipairs(asked) do
  local known = known_run(new)
  if not known and not are_staged(new[NEW_STAGE], new[NEW_STAGED]) then return { 'gone' } end
  answers[i] = known and check_same(known, new) or create_run(new)
  created[i] = not known and answers[i][1] == 'run'
  if created[i] and new[NEW_IDEMPOTENCY_KEY] then keys[idempotency_of(new)] = new[NEW_RUN] end
end
expect(KEY.idempotency, 'hash')
local wake = commit()
for i, new in ipairs(asked) do
  if created[i] then
    keep_staged(new[NEW_RUN], new[NEW_STAGE])
  elseif new[NEW_STAGE] then
    call('UNLINK', stage_key(new[NEW_STAGE]))
  end
end
for key, run in pairs(keys) do call('HSET', KEY.idempotency, key, run) end
for _, answer in ipairs(answers) do
  if answer[1] == 'run' then answer[2] = replies.run(answer[2]) end
end
return { answers, wake }
