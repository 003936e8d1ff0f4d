-- delete_runs: remove runs that are over. request: tenant, runs. Result: {how many,
-- idempotency keys that are free again}.

local tenant, names = unpack(unpack_row(request), 1, 2)
local seen = {}
for _, name in ipairs(names) do
  local run = not seen[name] and load_run(name)
  seen[name] = true
  if run and run[R_TENANT] == tenant and is_deletable(run) then remove_run(run) end
end
commit()
return { #doomed, remove_doomed() }
