-- discard_dead_letter: mark the pending dead letter of a run's generation as of no further interest.
-- request: now_ms or nil, tenant, run, generation, why. Result: 1 or 0.

local given, tenant, name, generation, why = unpack(unpack_row(request), 1, 5)
now = clock(given)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return 0 end
-- A retry takes up what is pending, so only the last generation can have it.
local letter = pending_letter(run)
if not letter or letter[D_GENERATION] ~= generation then return 0 end
move_letter(run, letter, 'discarded', why)
commit()
return 1
