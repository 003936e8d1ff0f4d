-- read_signals: the signals of a run that no instance has received, the oldest first.
-- request: tenant, run. Result: {id, row, …}.

local tenant, name = unpack(unpack_row(request), 1, 2)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return {} end
local ids, fields, answers = call('ZRANGE', kept_key(name), 0, -1), {}, {}
for i, id in ipairs(ids) do fields[i] = F_SIGNAL .. id end
for i, row in ipairs(get_fields(run[R_KEY], fields)) do
  answers[2 * i - 1], answers[2 * i] = ids[i], row
end
return answers
