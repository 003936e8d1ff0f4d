-- Steps inside handlers: the first result of each stays. As `store/rules/steps.py`.

-- Exports. Everything else stays local to this block.
local record_step

do

--: Why a step was not recorded: its place in `REFUSALS` of `runs.py`.
local LOST, GONE = 0, 1

local has_step

-- Keep a step's result, and receive the signal (0: none) that it comes with. Result: the result that is
-- kept, or why none is.
function record_step(tenant, new)
  local node, scope, value, signal = new[STEP_NODE], new[STEP_SCOPE], new[STEP_VALUE], new[STEP_SIGNAL]
  local token, run = load_token(new[STEP_RUN], node, scope)
  if not token or run[R_TENANT] ~= tenant or token[T_LEASE] ~= new[STEP_LEASE] then return LOST end
  if token[T_STATE] ~= 'leased' and not is_open(token) then return LOST end
  run.recorded = run.recorded or {}
  local recorded, prefix = run.recorded, F_STEP .. node .. '\0' .. scope .. '\0'
  if new[STEP_AFTER] ~= '' and not has_step(run, prefix .. new[STEP_AFTER]) then return LOST end
  local field = prefix .. new[STEP_NAME]
  local known = recorded[field] or call('HGET', run[R_KEY], field)
  if known then return known end
  if signal ~= 0 and not receive_in_step(run, token, signal) then return GONE end
  recorded[field] = value
  put(run, field, value)
  append(run, events.step_recorded(token, new[STEP_NAME], value, signal))
  return value
end

function has_step(run, field)
  return run.recorded[field] or call('HEXISTS', run[R_KEY], field) == 1
end

end
