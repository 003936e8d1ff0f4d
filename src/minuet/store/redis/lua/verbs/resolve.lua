-- resolve: give a waiting token what it waits for; the first one wins.
-- request: now_ms or nil, tenant, run, node, scope, resolution, by, wait key or nil.
-- Result: {1 or 0, whether there is work}.

local given, tenant, run, node, scope, resolution, by, wait_key = unpack(unpack_row(request), 1, 8)
now = clock(given)
if not resume(tenant, run, node, scope, resolution, by, wait_key) then return { 0, 0 } end
return { 1, commit() }
