-- delete_runs and sweep, on a cluster: an idempotency key whose run is gone is free again.
-- request: tenant \0 key, run. Result: 1 or 0.

local field, run = unpack(unpack_row(request), 1, 2)
if call('HGET', KEY.idempotency, field) ~= run then return 0 end
return call('HDEL', KEY.idempotency, field)
