-- forget_idle: workers without a heartbeat for long. request: now_ms or nil, worker_ms_max.
-- Result: how many.

local given, longest = unpack(unpack_row(request), 1, 2)
now = clock(given)
return forget_workers(longest)
