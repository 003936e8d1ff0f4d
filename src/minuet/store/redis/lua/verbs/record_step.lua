-- record_step: keep the result of a step inside a handler; the first result stays.
-- request: now_ms or nil, tenant, {run, node, scope, lease}, name, value.
-- Result: {the value kept}, or nothing when the lease is lost.

local given, tenant, held, name, value = unpack(unpack_row(request), 1, 5)
now = clock(given)
local kept = record_step(tenant, held, name, value)
if not kept then return {} end
commit()
return { kept }
