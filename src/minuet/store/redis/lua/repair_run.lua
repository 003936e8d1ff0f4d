-- repair_run: put rows in the place of all that is stored of a run; its events stay.
-- ARGV[1]: tenant, run, expected seq, the run's row, what never changes of it, its input, tokens
-- {node, scope, row}, joins {name, row}, arrivals {name, source, scope, live, late}, steps
-- {field, value}, dead letters {generation, row}. Rows are values in an array, as `rows.lua` packs
-- them. Result: {1 or 0, whether there is work}.

local tenant, name, expected, row, origin, input, new_tokens, new_joins, new_arrivals, steps, letters =
  unpack(unpack_row(ARGV[1]), 1, 11)
now = 0
local run = load_run(name)
if not run or run.tenant ~= tenant or run.seq ~= expected then return { 0, 0 } end

local function letter_place(letter)
  local node, scope, generation, owner, _, _, _, _, _, at_ms, status = unpack(letter, 1, 11)
  local member = name .. '\0' .. node .. '\0' .. scope .. format('\0%08d', generation)
  return dead_key(owner, status), member, at_ms
end

-- What is there goes.
load_all_tokens(run)
change_run(run)
for _, token in ipairs(run.tokens) do
  change_token(token)
  free_slot(token)
  token.state, token.gone = 'gone', true
end
run.gone = {}
for _, field in ipairs(call('HKEYS', run.key)) do
  if find(field, '^[tjansd]') then run.gone[#run.gone + 1] = field end
  if find(field, '^d') then
    local key, member = letter_place({ unpack_row(call('HGET', run.key, field)) })
    leave(key, member)
  end
end
for _, member in ipairs(call('ZRANGE', scopes_key(name), 0, -1)) do
  leave(scopes_key(name), member)
end

-- What was given comes.
local fields = parse_run(name, pack(unpack(row, 1, 13)))
for field, value in pairs(fields) do
  if type(value) ~= 'table' and field ~= 'changed' then run[field] = value end
end
run.started_ms, run.ended_ms, run.deadline_ms = fields.started_ms, fields.ended_ms, fields.deadline_ms
run.error, run.scoped = fields.error, false
local _, first_plan = unpack_row(call('HGET', run.key, 'I'))
put(run, 'I', pack(origin[1], first_plan, unpack(origin, 3, 6)))
put(run, 'i', input)

local joined, listed = {}, {}
for _, join in ipairs(new_joins) do joined[join[1]] = true end
for _, arrival in ipairs(new_arrivals) do
  local to, source, scope, live, late = unpack(arrival, 1, 5)
  put(run, 'a' .. to .. '\0' .. source, pack(scope, live, late))
  if live and not late then
    listed[to] = (listed[to] or 0) + 1
    put(run, 'n' .. to .. '\0' .. listed[to], pack(source, scope, 0))
  end
end
for _, join in ipairs(new_joins) do
  local need, total, live, skipped, fired, hop = unpack(join[2], 1, 6)
  put(run, 'j' .. join[1], pack(need, total, live, skipped, fired, hop, listed[join[1]] or 0))
end
for _, one in ipairs(new_tokens) do
  local node, scope = one[1], one[2]
  local member = name .. '\0' .. node .. '\0' .. scope
  local token = parse_token(run, node, scope, member, pack(unpack(one[3], 1, 25)))
  token.new, token.joined = true, joined[node .. '\0' .. scope] or false
  tokens[member] = token
  change_token(token)
  if token.slot ~= '' and token.lane ~= 'slot' then
    local slot = tenant .. '\0' .. token.slot
    holders[slot] = (holders[slot] or 0) + 1
  end
  if scope ~= '' and token.event ~= 0 and not token.skip then
    run.scoped = true
    enter(scopes_key(name), node .. '\0' .. scope, 0)
  end
end
for _, step in ipairs(steps) do put(run, step[1], step[2]) end
for _, letter in ipairs(letters) do
  put(run, 'd' .. letter[3], pack(unpack(letter, 1, 11)))
  enter(letter_place(letter))
end
return { 1, commit() }
