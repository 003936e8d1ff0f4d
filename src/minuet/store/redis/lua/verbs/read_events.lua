-- read_events: in their order. request: tenant, run, after seq, limit. Result: {record, …}.

local tenant, name, after_seq, limit = unpack(unpack_row(request), 1, 4)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return {} end
local fields = {}
for seq = after_seq + 1, math.min(run[R_SEQ], after_seq + limit) do fields[#fields + 1] = F_EVENT .. seq end
return get_fields(run[R_KEY], fields)
