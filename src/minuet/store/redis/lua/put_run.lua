-- put_run: put a run in the place of all that is stored of it.
-- ARGV[1]: tenant, run, expected seq or nil, the run's row, idempotency key or nil, where fields
-- were kept aside (nil: nowhere) and how many, {field, value, …} (the rest of them), live tokens
-- {node, scope, row}, where scoped outputs stand {node \0 scope}, dead letters {status, member, when}.
-- Result: {'put', whether there is work, idempotency keys that are free again}, {'no'},
--   {'key', the run that has the idempotency key} or {'gone'}: what was kept aside is.

local tenant, name, expected, row, key, staged, staged_count, fields, live, scoped, letters =
  unpack(unpack_row(ARGV[1]), 1, 11)
local old = load_run(name)
if expected then
  if not old or old.tenant ~= tenant or old.seq ~= expected then return { 'no' } end
elseif old then
  return { 'no' }
end
expect(IDEMPOTENCY, 'hash')
local owner = key and call('HGET', IDEMPOTENCY, tenant .. '\0' .. key)
if owner and owner ~= name and load_run(owner) then return { 'key', owner } end
if staged and call('HLEN', stage_key(staged)) ~= staged_count then return { 'gone' } end
now = 0

-- What is there goes.
local old_key
if old then
  load_all_tokens(old)
  for _, token in ipairs(old.tokens) do
    change_token(token)
    free_slot(token)
    token.state, token.gone = 'gone', true
  end
  old_key = hide_run(old, fields_of(old, 'd'))
end

-- What was given comes.
local run = parse_run(name, row)
run.new, run.replaces, run.staged = true, true, staged and stage_key(staged)
runs[name] = run
change_run(run)
run.out = fields
for _, one in ipairs(live) do
  local node, scope = one[1], one[2]
  local member = name .. '\0' .. node .. '\0' .. scope
  local token = parse_token(run, node, scope, member, one[3])
  token.new = true
  tokens[member] = token
  change_token(token)
  if token.slot ~= '' and token.lane ~= 'slot' then
    local slot = tenant .. '\0' .. token.slot
    holders[slot] = (holders[slot] or 0) + 1
  end
end
for _, member in ipairs(scoped) do enter(scopes_key(name), member, 0) end
for _, letter in ipairs(letters) do enter(dead_key(tenant, letter[1]), letter[2], letter[3]) end
local work = commit()

local released = {}
if old_key and old_key ~= key then
  call('HDEL', IDEMPOTENCY, tenant .. '\0' .. old_key)
  released[1] = { tenant .. '\0' .. old_key, name }
end
if key then call('HSET', IDEMPOTENCY, tenant .. '\0' .. key, name) end
return { 'put', work, released }
