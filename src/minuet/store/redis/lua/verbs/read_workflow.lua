-- read_workflow. request: tenant, name, and a number, a tag or nil. Result: a workflow, or false.

local tenant, name, at = unpack(unpack_row(request), 1, 3)
local newest, tags = registry.read_named(tenant, name)
local number = number_of(newest, tags, at)
return number and registry.workflow_answer(tenant, name, number) or false
