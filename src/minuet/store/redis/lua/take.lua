-- Taking tokens: the oldest that are ready in any of some queues. This step has written nothing
-- yet, so its own changes are applied to what the queues show.

-- Exports. Everything else stays local to this block.
local take, run_filter, first_ready

do

-- Tokens of a queue that are read together.
local PORTION = 1000

-- Queues that are asked one by one, without asking first whether any of them shows something; and
-- those that one command can ask.
local QUEUES_FEW, QUEUES_MAX = 3, 1000

-- Names of runs as a set; nil: any run will do.
function run_filter(names)
  if not names then return nil end
  local wanted = {}
  for _, name in ipairs(names) do wanted[name] = true end
  return wanted
end

-- {member, …}: the first that a queue shows, at least `limit` if there are that many. With `only`,
-- those of these runs; the others are skipped.
function first_ready(key, limit, only)
  if not only then
    return call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit)
  end
  local found, from, count = {}, 0, next(only) and call('ZCOUNT', key, '-inf', now) or 0
  while from < count and #found < limit do
    local last = math.min(from + PORTION, count) - 1
    for _, member in ipairs(call('ZRANGE', key, from, last)) do
      if only[(parts(member))] then found[#found + 1] = member end
    end
    from = last + 1
  end
  return found
end

-- Tokens that this step has made ready for these queues; when the first of them was due.
local function made_ready(tenant, wanted, only)
  local found, first = {}, now
  for i = 1, #changed_tokens do
    local token = changed_tokens[i]
    if token[T_STATE] == 'ready' and not token[T_LANE] and wanted[token[T_QUEUE]]
      and token[T_RUN][R_TENANT] == tenant and token[T_DUE_MS] <= now
      and (not only or only[token[T_RUN][R_NAME]])
    then
      found[#found + 1] = token
      first = math.min(first, token[T_DUE_MS])
    end
  end
  return found, first
end

local last_due_ms, last_text

-- Time and name, so that their order is the order of the bytes. Most times are the last one again.
local function sort_key(due_ms, member)
  if due_ms ~= last_due_ms then
    last_due_ms, last_text = due_ms, format('%016.0f', due_ms)
  end
  return last_text .. member
end

-- Put what queues show ({key, first, last of its members}, …) and tokens in their order:
-- {member, …}.
local function in_order(members, shown, made)
  local keys, count = {}, #members
  for _, of_queue in ipairs(shown) do
    local key, first, last = unpack(of_queue)
    for from = first, last, PORTION do
      local due = call('ZMSCORE', key, unpack(members, from, math.min(from + PORTION - 1, last)))
      for i = 1, #due do keys[from + i - 1] = sort_key(due[i], members[from + i - 1]) end
    end
  end
  for i = 1, #made do keys[count + i] = sort_key(made[i][T_DUE_MS], made[i][T_MEMBER]) end
  if bytewise then table.sort(keys) else table.sort(keys, precedes) end
  for i = 1, #keys do keys[i] = sub(keys[i], 17) end
  return keys
end

-- Whether many queues show nothing at all: often so, and quicker than to ask each.
local function all_empty(keys)
  if #keys <= QUEUES_FEW or #keys > QUEUES_MAX then return false end
  return call('EXISTS', unpack(keys)) == 0
end

-- At least the first `limit` of what can be taken, in order: {member, …}.
local function candidates(tenant, queues, limit, only)
  local shown, members, keys = {}, {}, ready_keys(tenant, queues)
  for i = 1, all_empty(keys) and 0 or #keys do
    local key, before = keys[i], #members
    local count, most = before, before + limit
    for _, member in ipairs(first_ready(key, limit + was_ready, only)) do
      local token = tokens[member]
      if not (token and token[T_CHANGED]) and count < most then
        count = count + 1
        members[count] = member
      end
    end
    if count > before then shown[#shown + 1] = { key, before + 1, count } end
  end
  local made, first = made_ready(tenant, queues, only)
  -- One queue is in order already; often what this step has made ready comes after all it shows.
  if #shown <= 1 and (#made == 0 or (#members == limit
    and tonumber(call('ZSCORE', shown[1][1], members[limit])) < first))
  then
    return members
  end
  return in_order(members, shown, made)
end

-- A token that a queue shows, with its run and all of it that a worker must know.
local function load_shown(member)
  local name, node, scope = parts(member)
  local run = runs[name]
  if run ~= nil then return load_token(name, node, scope) end
  local key, field = RUN .. name, F_TOKEN .. node .. '\0' .. scope
  local found = call('HMGET', key, F_RUN, field, F_ORIGIN, F_INPUT)
  run = found[1] and parse_run(name, key, found[1])
  runs[name] = run
  if not run then return false end
  run[R_COLD], run[R_INPUT] = found[3], found[4]
  return keep_token(run, node, scope, member, field, found[2])
end

-- Take tokens of these queues (a standing part of requests), as long as what they need fits into the
-- answer; whether all did.
function take(tenant, session, lease, queues, limit, only, taken)
  if limit <= 0 then return true end
  local found = candidates(tenant, queues, limit, only)
  for i = 1, math.min(limit, #found) do
    local member = found[i]
    local token = tokens[member] or load_shown(member)
    if token then
      if not fit(token, #taken == 0) then return false end
      touch_token(token)
      token[T_STATE], token[T_LEASE], token[T_SESSION] = 'leased', lease, session
      token[T_DUE_MS], token[T_TAKEN_MS] = lease_end(token), now
      token[T_DELIVERY] = token[T_DELIVERY] + 1
      taken[#taken + 1] = token
    else
      -- Its row is gone: there is nothing to take.
      for _, key in ipairs(ready_keys(tenant, queues)) do leave(key, member) end
    end
  end
  return true
end

end
