-- list_workflows: those after a name, each with its newest version. request: tenant, after, limit.
-- Result: workflows.

local tenant, after, limit = unpack(unpack_row(request), 1, 3)
local answers = {}
for i, name in ipairs(registry.workflow_names(tenant, after, limit)) do
  answers[i] = registry.workflow_answer(tenant, name)
end
return answers
