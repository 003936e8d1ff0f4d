-- wait_for_work: whether there is something to take.
-- request: now_ms or nil, tenant, queues, the runs that it must belong to or nil. Result: 1 or 0.

local given, tenant, queues, only = unpack(unpack_row(request), 1, 4)
now, only = clock(given), run_filter(only)
for _, queue in ipairs(queues) do
  local key = ready_key(tenant, queue)
  if #first_ready(key, 1, only) > 0 then return 1 end
end
return 0
