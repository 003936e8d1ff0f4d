-- drain_worker: ask a worker to end. request: tenant, worker. Result: 1, or 0 if nobody knows it.

local tenant, worker = unpack(unpack_row(request), 1, 2)
local row = call('HGET', workers_key(tenant), worker)
if not row then return 0 end
local registered, heard, _, removed, record = unpack_row(row)
if removed then return 0 end
call('HSET', workers_key(tenant), worker, pack(registered, heard, true, false, record))
return 1
