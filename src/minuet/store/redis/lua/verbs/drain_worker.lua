-- drain_worker: ask a worker to end. request: tenant, worker. Result: 1, or 0 if it is not registered.

local tenant, worker = unpack(unpack_row(request), 1, 2)
return change_worker(tenant, worker, function() return true, false end)
