-- Taking tokens: the oldest that are ready in any of some queues. This step has written nothing
-- yet, so what the queues show is put right by what it has changed.

-- Tokens that this step has made ready for these queues; when the first of them was due.
local function made_ready(tenant, wanted)
  local found, first = {}, now
  for _, token in ipairs(changed_tokens) do
    if token.state == 'ready' and token.lane == '' and token.tenant == tenant and wanted[token.queue]
      and token.due_ms <= now
    then
      found[#found + 1] = token
      first = math.min(first, token.due_ms)
    end
  end
  return found, first
end

local function earlier(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return precedes(a[2], b[2])
end

-- At most `limit` of {due, name, queue's key}, in their order.
local function candidates(tenant, queues, limit)
  local found, wanted, filled = {}, {}, 0
  for _, queue in ipairs(queues) do
    if not wanted[queue] then
      wanted[queue] = true
      local key, count = ready_key(tenant, queue), #found
      local shown = call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0,
        limit + was_ready)
      for i = 1, #shown, 2 do
        local token = tokens[shown[i]]
        if not (token and token.changed) and #found - count < limit then
          found[#found + 1] = { tonumber(shown[i + 1]), shown[i], key }
        end
      end
      if #found > count then filled = filled + 1 end
    end
  end
  local made, first = made_ready(tenant, wanted)
  -- One queue is in order already; often what this step has made ready comes after all it shows.
  if filled == 1 and #found == limit and found[limit][1] < first then return found end
  for _, token in ipairs(made) do found[#found + 1] = { token.due_ms, token.member } end
  table.sort(found, earlier)
  return found
end

local function take(request, queues, limit, until_ms, taken)
  if limit <= 0 then return end
  local found = candidates(request.tenant, queues, limit)
  for i = 1, math.min(limit, #found) do
    local member = found[i][2]
    local token = tokens[member] or load_token(parts(member))
    if token then
      change_token(token)
      token.state, token.lease, token.session = 'leased', request.lease, request.session
      token.due_ms, token.taken_ms, token.delivery = until_ms, now, token.delivery + 1
      taken[#taken + 1] = token
    else
      -- Its row is gone: nothing that anybody could take.
      leave(found[i][3], member)
    end
  end
end
