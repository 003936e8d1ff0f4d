-- create_runs, on a cluster: reserve an idempotency key for a run's name, unless it has one.
-- request: tenant, key, run. Result: the run that has the key.

local tenant, key, run = unpack(unpack_row(request), 1, 3)
local field = tenant .. '\0' .. key
if call('HSETNX', KEY.idempotency, field, run) == 1 then return run end
return call('HGET', KEY.idempotency, field)
