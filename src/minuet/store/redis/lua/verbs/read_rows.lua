-- read_tokens, read_steps, read_snapshot: the fields of a run's hash that begin with a prefix
-- ('' is all of them). request: tenant, run, prefix. Result: {field, value, …}.

local tenant, name, prefix = unpack(unpack_row(request), 1, 3)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return {} end
if prefix == '' then return call('HGETALL', run[R_KEY]) end
local fields, answers = {}, {}
for _, field in ipairs(call('HKEYS', run[R_KEY])) do
  if sub(field, 1, #prefix) == prefix then fields[#fields + 1] = field end
end
for i, value in ipairs(get_fields(run[R_KEY], fields)) do
  answers[2 * i - 1], answers[2 * i] = fields[i], value
end
return answers
