-- Workers: a hash for each tenant, and in one sorted set when each of them was last heard of. On a
-- cluster they lie in the first partition.

local function workers_key(tenant) return base .. ':workers:' .. tenant end
