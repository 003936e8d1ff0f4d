-- list_waiting: in the order of run, node and scope. request: tenant, kind, key or nil, limit.
-- Result: {{run, node, scope, row}, …}.

local tenant, kind, key, limit = unpack(unpack_row(request), 1, 4)
local answers = {}
if limit <= 0 then return answers end
for _, member in ipairs(call('ZRANGE', waiting_key(tenant, kind, key), 0, limit - 1)) do
  local run, node, scope = parts(member)
  local row = call('HGET', RUN .. run, F_TOKEN .. node .. '\0' .. scope)
  if row then answers[#answers + 1] = { run, node, scope, row } end
end
return answers
