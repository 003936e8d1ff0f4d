-- count_runs: request: tenant, statuses. Result: how many runs have each status, and how many dead
-- letters nobody has dealt with.

local tenant, statuses = unpack(unpack_row(request), 1, 2)
local answers = {}
for i, status in ipairs(statuses) do answers[i] = call('ZCARD', runs_key(tenant, status)) end
answers[#answers + 1] = call('ZCARD', dead_key(tenant, 'pending'))
return answers
