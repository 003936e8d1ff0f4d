-- Names of keys. The only key of a call is the partition's name, such as `minuet:{p0}`; all keys begin
-- with it.

--: The partition, and the names of its keys.
local base
local LEASES, TIMERS, DEADLINES, ENDED, QUEUES, SLOTS, IDEMPOTENCY, UNLOGGED, BORN, RECORD, BEATS
local WAKE, ENDS, UNREPORTED, NOTABLE, FEED
local RUN, READY, ASIDE

-- Exports. Everything else stays local to this block.
local use_partition, ready_key

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
  LEASES, TIMERS, DEADLINES = base .. ':leases', base .. ':timers', base .. ':deadlines'
  ENDED, QUEUES, SLOTS = base .. ':ended', base .. ':queues', base .. ':slots'
  WAKE, ENDS, IDEMPOTENCY = base .. ':wake', base .. ':ends', base .. ':idempotency'
  UNLOGGED, BORN, RECORD = base .. ':unrecorded', base .. ':born', base .. ':record'
  BEATS, UNREPORTED, NOTABLE = base .. ':beats', base .. ':unreported', base .. ':notable'
  FEED = base .. ':feed'
  RUN, READY, ASIDE = base .. ':run:', base .. ':ready:', base .. ':aside:'
end

-- What is ready in a queue.
function ready_key(tenant, queue)
  local of_tenant = queue_keys[tenant]
  if not of_tenant then
    of_tenant = {}
    queue_keys[tenant] = of_tenant
  end
  local key = of_tenant[queue]
  if not key then
    key = READY .. tenant .. '\0' .. queue
    of_tenant[queue], key_count = key, key_count + 1
  end
  return key
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
