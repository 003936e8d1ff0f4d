-- list_versions: of all workflows, after a name and a number. request: tenant, name, number, limit.
-- Result: versions.

local tenant, after, number, limit = unpack(unpack_row(request), 1, 4)
local answers = {}
for _, name in ipairs(registry.workflow_names(tenant, after, limit + 1, true)) do
  local first = name == after and number + 1 or 1
  for version = first, (registry.read_named(tenant, name)) do
    if #answers == limit then return answers end
    answers[#answers + 1] = registry.version_answer(tenant, name, version)
  end
end
return answers
