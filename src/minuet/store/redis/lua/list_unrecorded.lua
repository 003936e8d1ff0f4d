-- list_unrecorded: runs that have had unrecorded events for a while, the longest first.
-- ARGV[1]: now_ms or nil, age_ms, limit. Result: {run, …}.

local given, age_ms, limit = unpack(unpack_row(ARGV[1]), 1, 3)
return call('ZRANGEBYSCORE', UNRECORDED, '-inf', clock(given) - age_ms, 'LIMIT', 0, limit)
