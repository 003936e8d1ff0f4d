-- list_unlogged: runs that have had unlogged events for a while, the longest first.
-- request: now_ms or nil, age_ms, limit. Result: {run, …}.

local given, age_ms, limit = unpack(unpack_row(request), 1, 3)
local now = clock(given)
local found = call('ZRANGEBYSCORE', KEY.unlogged, '-inf', now - age_ms, 'LIMIT', 0, limit)
-- What seems to come from the future was noted before the clock was set back.
local future = call('ZRANGEBYSCORE', KEY.unlogged, '(' .. format('%.0f', now), '+inf', 'LIMIT', 0,
  limit - #found)
for _, run in ipairs(future) do found[#found + 1] = run end
return found
