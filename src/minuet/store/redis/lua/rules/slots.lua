-- Concurrency slots: who holds one, who waits for one, and who is next.

-- Exports. Everything else stays local to this block.
local lane_of, slot_of, hold_slot, free_slot, promote_waiters, park, ask_slot

do

function lane_of(run) return run[R_STATUS] == 'PAUSED' and 'pause' or nil end

function slot_of(token) return token[T_RUN][R_TENANT] .. '\0' .. token[T_SLOT] end

local function count_holders(slot)
  return tonumber(call('HGET', SLOTS, slot) or 0) + (holders[slot] or 0)
end

function hold_slot(slot) holders[slot] = (holders[slot] or 0) + 1 end

function free_slot(token)
  if not token[T_SLOT] then return end
  if token[T_LANE] ~= 'slot' then
    local slot = slot_of(token)
    holders[slot] = (holders[slot] or 0) - 1
    if not freed[slot] then
      freed[slot] = true
      freed_order[#freed_order + 1] = slot
    end
  end
  token[T_SLOT], token[T_SLOT_LIMIT] = nil, nil
end

-- Who waits for a slot by now, this step's own changes included. Of those that have not changed only
-- the first, so that a long line is not read for one free slot.
local function waiters(slot)
  local found = {}
  for _, token in ipairs(changed_tokens) do
    if token[T_LANE] == 'slot' and token[T_STATE] == 'ready' and slot_of(token) == slot then
      found[#found + 1] = token
    end
  end
  local first = 0
  repeat
    local members = call('ZRANGE', waiters_key(slot), first, first + 9)
    first = first + 10
    for _, member in ipairs(members) do
      local token = load_token(parts(member))
      if token and not token[T_CHANGED] then
        found[#found + 1] = token
        members = {}
        break
      end
    end
  until #members < 10
  table.sort(found, function(a, b)
    if a[T_DUE_MS] ~= b[T_DUE_MS] then return a[T_DUE_MS] < b[T_DUE_MS] end
    return precedes(a[T_MEMBER], b[T_MEMBER])
  end)
  return found
end

local function promote(slot)
  freed[slot] = nil
  local taken = count_holders(slot)
  while true do
    local token = waiters(slot)[1]
    if not token or taken >= token[T_SLOT_LIMIT] then break end
    taken = taken + 1
    hold_slot(slot)
    touch_token(token)
    token[T_LANE] = lane_of(token[T_RUN])
  end
end

function promote_waiters()
  local i = 1
  while i <= #freed_order do
    if freed[freed_order[i]] then promote(freed_order[i]) end
    i = i + 1
  end
end

-- Hold a ready token back while its run is paused. It gives up the slot that it holds or
-- waits for, and with a held slot the lease.
function park(token)
  touch_token(token)
  if token[T_SLOT] then
    free_slot(token)
    token[T_LEASE] = ''
  end
  token[T_LANE] = 'pause'
end

-- An empty key means no limit.
function ask_slot(run, token, ITEM)
  local key, limit = item.key, item.limit
  if key == '' or token[T_SLOT] == key then return 'held' end
  touch_token(token)
  if run[R_STATUS] == 'PAUSED' then
    -- It asks again when the run goes on.
    token[T_STATE], token[T_DUE_MS], token[T_LEASE] = 'ready', now, ''
    park(token)
    return 'applied'
  end
  free_slot(token)
  local slot = run[R_TENANT] .. '\0' .. key
  if freed[slot] then promote(slot) end
  local taken = count_holders(slot)
  token[T_SLOT], token[T_SLOT_LIMIT] = key, limit
  if taken < limit then
    hold_slot(slot)
    return 'held'
  end
  token[T_STATE], token[T_DUE_MS], token[T_LEASE], token[T_LANE] = 'ready', now, '', 'slot'
  return 'applied'
end

end
