-- find_queues: the queues of a tenant that begin with a prefix and have something ready.
-- request: tenant, prefix. Result: names of queues.

local tenant, prefix = unpack(unpack_row(request), 1, 2)
local head = tenant .. '\0'
local wanted, names = head .. prefix, {}
for _, field in ipairs(call('HKEYS', QUEUES)) do
  if sub(field, 1, #wanted) == wanted then
    local queue = sub(field, #head + 1)
    if call('EXISTS', ready_key(tenant, queue)) == 1 then names[#names + 1] = queue end
  end
end
return names
