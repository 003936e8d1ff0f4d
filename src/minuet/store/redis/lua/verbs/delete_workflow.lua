-- delete_workflow: all its versions and tags. request: tenant, name. Result: 1 if it was there, 0 if not.

local tenant, name = unpack(unpack_row(request), 1, 2)
local newest = registry.read_named(tenant, name)
for number = 1, newest do call('HDEL', registry.versions_key(tenant), registry.version_field(name, number)) end
call('HDEL', registry.named_key(tenant), name)
call('ZREM', registry.names_key(tenant), name)
return newest > 0 and 1 or 0
