-- remove_worker: take a worker off the list. request: tenant, worker. Result: 1, or 0 if it
-- is not registered. The row stays until it is forgotten, so that the worker can be asked to drain.

local tenant, worker = unpack(unpack_row(request), 1, 2)
return change_worker(tenant, worker, function(draining) return draining, true end)
