-- discard_dead_letter: mark the pending dead letter of an instance as of no further interest.
-- request: tenant, run, node, scope. Result: 1 or 0.

local tenant, run_id, node, scope = unpack(unpack_row(request), 1, 4)
local run = load_run(run_id)
if not run or run[R_TENANT] ~= tenant then return 0 end
-- A run fails at one node in each generation, and a retry takes up what is pending.
local field = 'd' .. run[R_GENERATION]
local data = call('HGET', run[R_KEY], field)
if not data then return 0 end
local letter = { unpack_row(data) }
if letter[1] ~= node or letter[2] ~= scope or letter[11] ~= 'pending' then return 0 end
letter[11] = 'discarded'
put(run, field, pack(unpack(letter, 1, 11)))
local member = run_id .. '\0' .. node .. '\0' .. scope .. format('\0%08d', letter[3])
leave(dead_key(tenant, 'pending'), member)
enter(dead_key(tenant, 'discarded'), member, letter[10])
commit()
return 1
