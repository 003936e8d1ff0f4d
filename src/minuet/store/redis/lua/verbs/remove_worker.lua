-- remove_worker: take a worker off the list. request: tenant, worker. Result: 1, or 0 if nobody
-- knows it. The row stays until it is forgotten, so that the worker can be told.

local tenant, worker = unpack(unpack_row(request), 1, 2)
local row = call('HGET', workers_key(tenant), worker)
if not row then return 0 end
local registered, heard, draining, removed, record = unpack_row(row)
if removed then return 0 end
call('HSET', workers_key(tenant), worker, pack(registered, heard, draining, true, record))
return 1
