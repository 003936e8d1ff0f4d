-- record_steps: keep the results of steps inside handlers, in this order; the first result stays.
-- request: now_ms or nil, tenant, steps (`messages.py`).
-- Result: of each the value kept, or a number: why there is none.

local given, tenant, steps = unpack(unpack_row(request), 1, 3)
now = clock(given)
local answers = {}
for i, new in ipairs(steps) do answers[i] = record_step(tenant, new) end
commit()
return answers
