-- record_step: keep the result of a step inside a handler; the first result stays.
-- request: now_ms or nil, tenant, run, node, scope, lease, name, value.
-- Result: {the value kept}, or nothing when the lease is lost.

local given, tenant, run_id, node, scope, lease, name, value = unpack(unpack_row(request), 1, 8)
now = clock(given)
local token, run = load_token(run_id, node, scope)
if not token or run[R_TENANT] ~= tenant then return {} end
if token[T_LEASE] ~= lease then return {} end
if token[T_STATE] ~= 'leased' and not is_open(token) then return {} end
local field = 's' .. node .. '\0' .. scope .. '\0' .. name
local known = call('HGET', run[R_KEY], field)
if known then return { known } end
put(run, field, value)
append(run, about('step.recorded', token) .. ',"name":' .. quote(name) .. json('value', value) .. '}')
commit()
return { value }
