-- Workers: a hash for each tenant, and one sorted set with the time of each last heartbeat. On a
-- cluster they are in the first partition.

local function workers_key(tenant) return base .. ':workers:' .. tenant end

-- Forget workers without a heartbeat for this long, some at a time. Result: how many.
local function forget_workers(longest)
  local silent = call('ZRANGEBYSCORE', KEY.beats, '-inf', '(' .. now - longest, 'LIMIT', 0, 100)
  for _, old in ipairs(silent) do
    local cut = find(old, '\0', 1, true)
    call('HDEL', workers_key(sub(old, 1, cut - 1)), sub(old, cut + 1))
    call('ZREM', KEY.beats, old)
  end
  return #silent
end

-- Set draining and removed of a worker that is on the list to what `change` makes of draining. 1,
-- or 0 if the worker is not registered.
local function change_worker(tenant, worker, change)
  local row = call('HGET', workers_key(tenant), worker)
  if not row then return 0 end
  local registered, heard, draining, removed, record = unpack_row(row)
  if removed then return 0 end
  draining, removed = change(draining)
  call('HSET', workers_key(tenant), worker, pack(registered, heard, draining, removed, record))
  return 1
end
