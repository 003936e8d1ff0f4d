-- Where deployed workflows are kept. Of a tenant there are a hash with a row for each workflow, {newest, tags},
-- a hash with the versions of all, and a sorted set with the names in their order. On a cluster all of a tenant
-- are in one partition.

--: A table, because a library has few local names.
local registry = {}

function registry.named_key(tenant) return base .. ':workflows:' .. tenant end
function registry.names_key(tenant) return base .. ':workflow-names:' .. tenant end
function registry.versions_key(tenant) return base .. ':versions:' .. tenant end
function registry.version_field(name, number) return name .. '\0' .. format('%d', number) end

-- The number of a workflow's newest version, and its tags: 0 and none if it is not there.
function registry.read_named(tenant, name)
  local row = call('HGET', registry.named_key(tenant), name)
  if not row then return 0, {} end
  return unpack_row(row)
end

function registry.read_version(tenant, name, number)
  return call('HGET', registry.versions_key(tenant), registry.version_field(name, number))
end

-- A version as an answer: name, number, row.
function registry.version_answer(tenant, name, number)
  return { name, number, registry.read_version(tenant, name, number) }
end

-- A workflow as an answer: newest; tags and their numbers, one after the other; a version of it (nil: the
-- newest one).
function registry.workflow_answer(tenant, name, number)
  local newest, tags = registry.read_named(tenant, name)
  local flat = {}
  for tag, named in pairs(tags) do
    flat[#flat + 1] = tag
    flat[#flat + 1] = named
  end
  return { newest, flat, registry.version_answer(tenant, name, number or newest) }
end

-- Up to `limit` names after one, or with `from` from it on.
function registry.workflow_names(tenant, after, limit, from)
  local least = (from and '[' or '(') .. after
  if after == '' then least = '-' end
  return call('ZRANGEBYLEX', registry.names_key(tenant), least, '+', 'LIMIT', 0, limit)
end
