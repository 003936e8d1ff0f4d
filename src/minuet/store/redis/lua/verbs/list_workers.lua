-- list_workers: the registered workers. request: now_ms or nil, tenant.
-- Result: {{registered_ms, heartbeat_ms, silent_ms, draining, record}, …}.

local given, tenant = unpack(unpack_row(request), 1, 2)
now = clock(given)
local answers = {}
for _, row in ipairs(call('HVALS', workers_key(tenant))) do
  local registered, heard, draining, removed, record = unpack_row(row)
  if not removed then
    local silent = math.max(0, now - heard)
    answers[#answers + 1] = { registered, heard, silent, draining and 1 or 0, record }
  end
end
return answers
