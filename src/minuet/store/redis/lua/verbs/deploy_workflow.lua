-- deploy_workflow. request: now_ms or nil, tenant, name, version (0: the next one), plan, document, message,
-- created_ms, created_by, tags. Result: {whether it is new, version}, or false when it cannot have its number.

local given, tenant, name, asked, plan, document, message, created_ms, created_by, tags =
  unpack(unpack_row(request), 1, 10)
now = clock(given)
local newest, named = registry.read_named(tenant, name)
local function find(number) return registry.read_version(tenant, name, number) end
local number, is_new = deploy(newest, named, find, asked, plan, document, tags)
if not number then return false end
if is_new then
  local row = pack_version{ plan = plan, document = document, message = message,
    created_ms = asked > 0 and created_ms or now, created_by = created_by }
  call('HSET', registry.versions_key(tenant), registry.version_field(name, number), row)
  call('ZADD', registry.names_key(tenant), 0, name)
end
for _, tag in ipairs(tags) do named[tag] = number end
call('HSET', registry.named_key(tenant), name, pack(math.max(newest, number), named))
return { is_new and 1 or 0, registry.version_answer(tenant, name, number) }
