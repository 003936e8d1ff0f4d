-- deploy_workflow. request: now_ms or nil, tenant, name, version (0: the next one), plan, document, message,
-- created_ms, created_by, tags, source. Result: {whether it is new, whether it was there and has this source now,
-- version}, or false when it cannot have its number.

local given, tenant, name, asked, plan, document, message, created_ms, created_by, tags, source =
  unpack(unpack_row(request), 1, 11)
now = clock(given)
local newest, named = registry.read_named(tenant, name)
local function find(number) return registry.read_version(tenant, name, number) end
local number, is_new = deploy(newest, named, find, asked, plan, document, tags)
if not number then return false end
local row, source_changed
if is_new then
  row = pack_version{ plan = plan, document = document, message = message,
    created_ms = asked > 0 and created_ms or now, created_by = created_by, source = source }
  call('ZADD', registry.names_key(tenant), 0, name)
else
  local kept = { unpack_row(find(number)) }
  source_changed = source ~= '' and source ~= kept[V_SOURCE]
  if source_changed then
    row = pack_version{ plan = plan, document = document, message = kept[V_MESSAGE],
      created_ms = kept[V_CREATED_MS], created_by = kept[V_CREATED_BY], source = source }
  end
end
if row then call('HSET', registry.versions_key(tenant), registry.version_field(name, number), row) end
for _, tag in ipairs(tags) do named[tag] = number end
call('HSET', registry.named_key(tenant), name, pack(math.max(newest, number), named))
return { is_new and 1 or 0, source_changed and 1 or 0, registry.version_answer(tenant, name, number) }
