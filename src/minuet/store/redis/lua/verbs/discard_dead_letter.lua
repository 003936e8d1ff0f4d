-- discard_dead_letter: mark a pending dead letter of a run's generation as of no further interest.
-- request: now_ms or nil, tenant, run, generation, why, node and scope of a compensator, or of a token
-- that was held, or nil.
-- Result: 1 or 0.

local given, tenant, name, generation, why, node, scope = unpack(unpack_row(request), 1, 7)
now = clock(given)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return 0 end
for _, letter in ipairs(pending_letters(run)) do
  local is_it = not node and not (letter[D_HELD] or undo.is_part(letter[D_NODE]))
  if node then is_it = letter[D_NODE] == node and letter[D_SCOPE] == scope end
  if is_it and letter[D_GENERATION] == generation then
    move_letter(run, letter, 'discarded', why)
    commit()
    return 1
  end
end
return 0
