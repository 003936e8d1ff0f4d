-- list_blobs: for one blob that belongs to no run. request: now_ms or nil, idle_ms. Result: when it was
-- last touched; false when it is gone, or was touched since.

local given, idle_ms = unpack(unpack_row(request), 1, 2)
local last = touched_ms()
return last and last <= clock(given) - idle_ms and last
