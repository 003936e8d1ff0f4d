-- change_run: from outside, by compare-and-set on the run's event number.
-- request: now_ms or nil, tenant, run, expected seq or nil, and the
-- values of the change.
-- Result: {'missing'}, {'conflict', run id, message, status, seq} or
--   {'run', run, whether there is work}.

local asked = unpack_row(request)
local given, tenant, name, expected = unpack(asked, 1, 4)
now = clock(given)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return { 'missing' } end
local refusal = change_run(run, expected, unpack(asked, 5, 4 + CHANGE_VALUES))
if refusal then return refusal end
local wake = commit()
return { 'run', replies.run(run), wake }
