-- touch_blobs: for one blob that belongs to no run. request: now_ms or nil, touch_ms. Result: 1 when it
-- is there, else 0.

local given, touch_ms = unpack(unpack_row(request), 1, 2)
now = clock(given)
return touch_blob(touch_ms) and 1 or 0
