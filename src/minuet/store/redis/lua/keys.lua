-- Names of keys. The only key of a call is the partition's name, such as `minuet:{p0}`; all keys begin
-- with it.

--: The partition, and the names of its keys.
local base
local LEASES, ENDED, QUEUES, SLOTS, WAKE, ENDS, FEED, RUN, READY, ASIDE
--: Those that few calls need, by name, because Lua has room for 200 locals.
local KEY

-- Exports. Everything else stays local to this block.
local use_partition, ready_key, ready_keys

do

--: Keys of queues, by tenant and queue, and all of them by partition. They are kept from call to call,
-- because workers ask for the same queues each time. At about so many, all are forgotten.
local QUEUE_KEYS_MAX = 10000
local queue_keys, known_keys, key_count = {}, {}, 0

function use_partition(name)
  if key_count > QUEUE_KEYS_MAX then base, known_keys, key_count = nil, {}, 0 end
  if name == base then return end
  base = name
  queue_keys = known_keys[base] or {}
  known_keys[base] = queue_keys
  LEASES, ENDED, QUEUES, SLOTS =
    base .. ':leases', base .. ':ended', base .. ':queues', base .. ':slots'
  WAKE, ENDS, FEED = base .. ':wake', base .. ':ends', base .. ':feed'
  RUN, READY, ASIDE = base .. ':run:', base .. ':ready:', base .. ':aside:'
  KEY = { timers = base .. ':timers', deadlines = base .. ':deadlines',
    idempotency = base .. ':idempotency', unlogged = base .. ':unrecorded', born = base .. ':born',
    record = base .. ':record', beats = base .. ':beats', unreported = base .. ':unreported',
    notable = base .. ':notable' }
end

local function keys_of(tenant)
  local known = queue_keys[tenant]
  if not known then
    known = {}
    queue_keys[tenant] = known
  end
  return known
end

-- What is ready in a queue.
function ready_key(tenant, queue)
  local known = keys_of(tenant)
  local key = known[queue]
  if not key then
    key = READY .. tenant .. '\0' .. queue
    known[queue], key_count = key, key_count + 1
  end
  return key
end

-- The same of several queues: `queues` is a table that is kept from call to call.
function ready_keys(tenant, queues)
  local known = keys_of(tenant)
  local keys = known[queues]
  if not keys then
    keys = {}
    for i = 1, #queues do keys[i] = ready_key(tenant, queues[i]) end
    known[queues], key_count = keys, key_count + #keys + 1
  end
  return keys
end

end

local function stage_key(name) return base .. ':stage:' .. name end
local function scopes_key(name) return base .. ':scopes:' .. name end
local function kept_key(name) return base .. ':kept:' .. name end
local function blobs_key(name) return base .. ':blobs:' .. name end
local function session_key(session) return base .. ':session:' .. session end
local function waiters_key(slot) return base .. ':waiters:' .. slot end
local function dead_key(tenant, status) return base .. ':dead:' .. tenant .. '\0' .. status end

local function waiting_key(tenant, kind, key)
  local name = base .. ':waiting:' .. tenant .. '\0' .. kind
  return key and name .. '\0' .. key or name
end

local function runs_key(tenant, status, workflow)
  local name = base .. ':runs:' .. tenant .. '\0' .. status
  return workflow and name .. '\0' .. workflow or name
end

-- Run, node and scope of a token, from its name in sorted sets.
local function parts(member)
  local first = find(member, '\0', 1, true)
  local second = find(member, '\0', first + 1, true)
  return sub(member, 1, first - 1), sub(member, first + 1, second - 1), sub(member, second + 1)
end
