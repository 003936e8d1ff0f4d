-- Workers: a hash for each tenant, and in one sorted set when each of them was last heard of. On a
-- cluster they lie in the first partition.

local function workers_key(tenant) return base .. ':workers:' .. tenant end

-- Forget workers that were not heard of for so long, some at a time. How many.
local function forget_workers(longest)
  local silent = call('ZRANGEBYSCORE', BEATS, '-inf', '(' .. now - longest, 'LIMIT', 0, 100)
  for _, old in ipairs(silent) do
    local cut = find(old, '\0', 1, true)
    call('HDEL', workers_key(sub(old, 1, cut - 1)), sub(old, cut + 1))
    call('ZREM', BEATS, old)
  end
  return #silent
end
