-- wait_for_work looks whether there is something to take.
-- request: now_ms or nil, tenant, queues. Result: 1 or 0.

local given, tenant, queues = unpack(unpack_row(request), 1, 3)
now = clock(given)
for _, queue in ipairs(queues) do
  local key = READY .. tenant .. '\0' .. queue
  if #call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 1) > 0 then return 1 end
end
return 0
