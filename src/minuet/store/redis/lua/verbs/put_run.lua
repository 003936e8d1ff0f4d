-- put_run: put a run in the place of all that is stored of it.
-- request: tenant, run, expected seq or nil, the run's row, idempotency key or nil, where fields
-- were kept aside (nil: nowhere) and how many, {field, value, …} (the rest of them), live tokens
-- {node, scope, row}, where scoped outputs are {node \0 scope}, dead letters {status, member,
-- when}, kept signals {id, seq}, child runs that tokens may wait for, where blobs that it brings
-- were kept aside (nil: nowhere) and how many.
-- Result: {'put', whether there is work, idempotency keys that are free again}, {'no'},
--   {'key', the run that has the idempotency key} or {'gone'}: what was kept aside is.

local tenant, name, expected, row, key, staged, staged_count, fields, live, scoped, letters,
  kept, awaited, blobs, blobs_count = unpack(unpack_row(request), 1, 15)
local old = load_run(name)
if not is_expected(old, tenant, expected) then return { 'no' } end
expect(KEY.idempotency, 'hash')
local owner = key and call('HGET', KEY.idempotency, tenant .. '\0' .. key)
if owner and owner ~= name and load_run(owner) then return { 'key', owner } end
if not (are_staged(staged, staged_count) and are_staged(blobs, blobs_count)) then
  return { 'gone' }
end
now = 0

local old_key = old and hide_run(old, fields_of(old, F_DEAD_LETTER))
local run = parse_run(name, RUN .. name, row)
put_run(old, run, live, awaited)
run.staged = staged and stage_key(staged)
run[R_OUT], run[R_COUNT] = fields, #fields
written_runs[#written_runs + 1] = run
for _, member in ipairs(scoped) do enter(scopes_key(name), member, 0) end
for _, letter in ipairs(letters) do enter(dead_key(tenant, letter[1]), letter[2], letter[3]) end
for _, signal in ipairs(kept) do enter(kept_key(name), signal[1], signal[2]) end
local work = commit()
keep_staged(name, blobs)

local released = {}
if old_key and old_key ~= key then
  call('HDEL', KEY.idempotency, tenant .. '\0' .. old_key)
  released[1] = { tenant .. '\0' .. old_key, name }
end
if key then call('HSET', KEY.idempotency, tenant .. '\0' .. key, name) end
return { 'put', work, released }
