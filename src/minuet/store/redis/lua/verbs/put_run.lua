-- put_run: put a run in the place of all that is stored of it.
-- request: tenant, run, expected seq or nil, the run's row, idempotency key or nil, where fields
-- were kept aside (nil: nowhere) and how many, {field, value, …} (the rest of them), live tokens
-- {node, scope, row}, where scoped outputs stand {node \0 scope}, dead letters {status, member,
-- when}, where blobs that it brings were kept aside (nil: nowhere) and how many.
-- Result: {'put', whether there is work, idempotency keys that are free again}, {'no'},
--   {'key', the run that has the idempotency key} or {'gone'}: what was kept aside is.

local tenant, name, expected, row, key, staged, staged_count, fields, live, scoped, letters,
  blobs, blobs_count = unpack(unpack_row(request), 1, 13)
local old = load_run(name)
if expected then
  if not old or old[R_TENANT] ~= tenant or old[R_SEQ] ~= expected then return { 'no' } end
elseif old then
  return { 'no' }
end
expect(IDEMPOTENCY, 'hash')
local owner = key and call('HGET', IDEMPOTENCY, tenant .. '\0' .. key)
if owner and owner ~= name and load_run(owner) then return { 'key', owner } end
if not (are_staged(staged, staged_count) and are_staged(blobs, blobs_count)) then
  return { 'gone' }
end
now = 0

-- What is there goes.
local old_key
if old then
  for _, token in ipairs(stored_tokens(old)) do
    change_token(token)
    free_slot(token)
    token[T_STATE], token.gone = 'gone', true
  end
  old_key = hide_run(old, fields_of(old, 'd'))
end

-- What was given comes.
local run = parse_run(name, row)
run[R_NEW], run.replaces, run.staged = true, true, staged and stage_key(staged)
runs[name] = run
change_run(run)
run[R_OUT], run[R_COUNT] = fields, #fields
written_runs[1] = run
for _, one in ipairs(live) do
  local node, scope = one[1], one[2]
  local member = name .. '\0' .. node .. '\0' .. scope
  local token = parse_token(run, node, scope, member, one[3])
  token[T_NEW] = true
  tokens[member] = token
  change_token(token)
  if token[T_SLOT] and token[T_LANE] ~= 'slot' then
    local slot = slot_of(token)
    holders[slot] = (holders[slot] or 0) + 1
  end
end
for _, member in ipairs(scoped) do enter(scopes_key(name), member, 0) end
for _, letter in ipairs(letters) do enter(dead_key(tenant, letter[1]), letter[2], letter[3]) end
local work = commit()
keep_staged(name, blobs)

local released = {}
if old_key and old_key ~= key then
  call('HDEL', IDEMPOTENCY, tenant .. '\0' .. old_key)
  released[1] = { tenant .. '\0' .. old_key, name }
end
if key then call('HSET', IDEMPOTENCY, tenant .. '\0' .. key, name) end
return { 'put', work, released }
