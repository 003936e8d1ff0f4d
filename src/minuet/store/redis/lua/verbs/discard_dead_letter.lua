-- discard_dead_letter: mark the pending dead letter of an instance as of no further interest.
-- request: tenant, run, node, scope. Result: 1 or 0.

local tenant, name, node, scope = unpack(unpack_row(request), 1, 4)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return 0 end
-- A retry takes up what is pending, so only the last generation can have it.
local letter = pending_letter(run)
if not letter or letter[D_NODE] ~= node or letter[D_SCOPE] ~= scope then return 0 end
move_letter(run, letter, 'discarded')
commit()
return 1
