-- Leases: renewed, expired, taken up again; and what only their holder may do.

-- Exports. Everything else stays local to this block.
local begin_leases, lease_end, is_lost, is_open, revive, come_back, renew, expire

do

-- How long leases are, and those of tokens of some queues; `messages.py` has bounded them.
local lease_ms, lease_ms_by_queue

function begin_leases(length, by_queue)
  lease_ms, lease_ms_by_queue = length, by_queue and standing(by_queue)
end

-- When a token's lease that is granted or renewed now runs out.
function lease_end(token)
  return now + (lease_ms_by_queue and lease_ms_by_queue[token[T_QUEUE]] or lease_ms)
end

-- Whether a lease is one of those of a token that have expired.
function is_lost(token, lease)
  local lost = token[T_LOST]
  if not lost then return false end
  for _, one in ipairs(lost) do
    if one == lease then return lease ~= '' end
  end
  return false
end

-- Whether a token's lease has expired and no worker has taken the token since. Its last worker may go
-- on as if nothing had happened.
function is_open(token)
  return token[T_STATE] == 'ready' and is_lost(token, token[T_LEASE])
end

-- The worker of an expired lease is alive, so the expiry was not a crash.
local function returned(run, token, lease, late)
  local kept = {}
  for _, one in ipairs(token[T_LOST]) do
    if one ~= lease then kept[#kept + 1] = one elseif late then kept[#kept + 1] = '' end
  end
  token[T_LOST] = kept[1] and kept or nil
  local expiry = math.max(0, (token[T_EXPIRY] or 0) - 1)
  token[T_EXPIRY] = expiry > 0 and expiry or nil
  append(run, events.lease_returned(token, lease, late))
end

-- The worker of the token's last lease goes on, although that lease has expired. The token may be
-- leased: a call that is repeated after the store has forgotten its session takes it again under the
-- same lease.
function revive(run, token)
  touch_token(token)
  if token[T_STATE] == 'ready' then
    token[T_STATE], token[T_DUE_MS], token[T_LANE] = 'leased', lease_end(token), nil
  end
  returned(run, token, token[T_LEASE], false)
end

-- A worker names a lease that is not the token's. If it is one that has expired, its worker is
-- alive, so the expiry was not a crash.
function come_back(run, token, lease)
  if not LIVE[token[T_STATE]] or not is_lost(token, lease) then return end
  local late = 0
  for _, one in ipairs(token[T_LOST]) do
    if one == '' then late = late + 1 end
  end
  if late >= RETURNS_MAX then return end
  touch_token(token)
  returned(run, token, lease, true)
end

-- Extend a lease; false when the token is no longer this worker's.
function renew(tenant, held)
  local token, run = load_token(held[HELD_RUN], held[HELD_NODE], held[HELD_SCOPE])
  if not token or run[R_TENANT] ~= tenant then return false end
  local lease = held[HELD_LEASE]
  if token[T_LEASE] ~= lease then
    come_back(run, token, lease)
    return false
  end
  if token[T_STATE] ~= 'leased' and not is_open(token) then return false end
  if is_lost(token, lease) then revive(run, token) end
  touch_token(token)
  token[T_DUE_MS] = lease_end(token)
  return true
end

-- Let others take the token of a worker that did not renew in time. Until one does, the lease can be
-- taken up again, and the slot is kept for the worker that goes on.
function expire(name, node, scope)
  local token, run = load_token(name, node, scope)
  if not token or token[T_STATE] ~= 'leased' then return false end
  touch_token(token)
  token[T_EXPIRY] = (token[T_EXPIRY] or 0) + 1
  local lost = {}
  for i, one in ipairs(token[T_LOST] or {}) do lost[i] = one end
  lost[#lost + 1] = token[T_LEASE]
  token[T_LOST] = lost
  append(run, events.lease_expired(token))
  token[T_STATE], token[T_DUE_MS] = 'ready', now
  if run[R_STATUS] == 'PAUSED' then park(token) end
  return true
end

end
