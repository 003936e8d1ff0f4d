-- register_worker: register a worker, or record its heartbeat.
-- request: now_ms or nil, tenant, worker, record, worker_ms_max.
-- Result: 1 when it has been asked to drain or was removed, else 0.
--
-- A row is {registered_ms, heartbeat_ms, draining, removed, record}; the times of
-- the heartbeats are in a sorted set beside them.

local given, tenant, worker, record, longest = unpack(unpack_row(request), 1, 5)
now = clock(given)
local key, field = workers_key(tenant), tenant .. '\0' .. worker
local known = call('HGET', key, worker)
local registered, draining, removed = now, false, false
if known then
  local _
  registered, _, draining, removed = unpack_row(known)
end
call('HSET', key, worker, pack(registered, now, draining, removed, record))
call('ZADD', KEY.beats, now, field)
forget_workers(longest)
return (draining or removed) and 1 or 0
