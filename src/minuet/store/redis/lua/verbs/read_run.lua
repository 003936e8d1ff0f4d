-- read_run: one run. request: tenant, run. Result: nothing, or {run, R, I, i}.

local tenant, name = unpack(unpack_row(request), 1, 2)
local run = load_run(name)
if not run then return replies.damaged(tenant, name) or {} end
if run[R_TENANT] ~= tenant then return {} end
return replies.run(run)
