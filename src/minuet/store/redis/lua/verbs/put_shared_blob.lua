-- put_blob: keep bytes that belong to no run. request: now_ms or nil, touch_ms, bytes. Result: 1.

local given, touch_ms, bytes = unpack(unpack_row(request), 1, 3)
now = clock(given)
if not touch_blob(touch_ms) then call('SET', base, bytes, 'PXAT', format('%.0f', now + FAR)) end
return 1
