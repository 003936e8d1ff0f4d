-- Writing what a step has touched. First everything that can be wrong is looked at (the kinds of
-- the keys), then all is written with commands that cannot fail: a script that stops in the middle
-- keeps the writes made so far.

local function send(command, key, values)
  for first = 1, #values, PORTION do
    call(command, key, unpack(values, first, math.min(first + PORTION - 1, #values)))
  end
end

-- Where the changed tokens are shown now.
local function move_tokens()
  local leased = {}
  for _, token in ipairs(changed_tokens) do
    local queue = token.tenant .. '\0' .. token.queue
    local delta = (token.state == 'leased' and 1 or 0) - (token.was_leased and 1 or 0)
    leased[queue] = (leased[queue] or 0) + delta
    local first, first_score, second, second_score, third, third_score = places(token)
    if first then enter(first, token.member, first_score) end
    if second then enter(second, token.member, second_score) end
    if third then enter(third, token.member, third_score) end
    if not token.gone then
      put(runs[token.run], 't' .. token.node .. '\0' .. token.scope, pack_token(token))
    end
  end
  return leased
end

-- Where the changed runs were listed and where they are now.
local function move_runs()
  for _, run in ipairs(changed_runs) do
    local tenant, workflow, name = run.tenant, run.workflow, run.run
    if run.status ~= run.old_status then
      if run.old_status then
        leave(runs_key(tenant, run.old_status), name)
        leave(runs_key(tenant, run.old_status, workflow), name)
      end
      enter(runs_key(tenant, run.status), name, 0)
      enter(runs_key(tenant, run.status, workflow), name, 0)
    end
    if run.deadline_ms ~= run.old_deadline then
      if run.deadline_ms then enter(DEADLINES, name, run.deadline_ms) else leave(DEADLINES, name) end
    end
    if run.ended_ms ~= run.old_ended then
      if run.ended_ms then enter(ENDED, name, run.ended_ms) else leave(ENDED, name) end
    end
    put(run, 'R', pack_run(run))
  end
end

local function list_arrivals()
  for _, join in pairs(joins) do
    for _, arrival in ipairs(join.pending) do
      join.listed = join.listed + 1
      put(join.run, 'n' .. join.name .. '\0' .. join.listed, pack(unpack(arrival, 1, 3)))
    end
    put(join.run, 'j' .. join.name, pack(join.need, join.total, join.live, join.skipped, join.fired,
      join.hop, join.listed))
  end
end

-- Numbers kept in a hash: {field, new value, ...}; fields to remove.
local function add_up(key, deltas, keep_zero)
  local set, gone = {}, {}
  for field, delta in pairs(deltas) do
    local old = call('HGET', key, field)
    local value = tonumber(old or 0) + delta
    if value == 0 and not keep_zero then
      if old then gone[#gone + 1] = field end
    elseif delta ~= 0 or not old then
      set[#set + 1] = field
      set[#set + 1] = format('%d', value)
    end
  end
  return set, gone
end

local function expect(key, kind)
  local found = call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then
    error({ err = 'WRONGTYPE ' .. key:gsub('%z', '|') .. ' is a ' .. found .. ', not a ' .. kind })
  end
end

-- Whether somebody else can now take what this step has made ready.
local function has_work()
  for _, token in ipairs(changed_tokens) do
    if token.state == 'ready' and token.lane == '' then return true end
  end
  return false
end

local function commit()
  promote_waiters()
  list_arrivals()
  local leased, wake = move_tokens(), has_work()
  move_runs()
  local queues = add_up(QUEUES, leased, true)
  local slots, slots_gone = add_up(SLOTS, holders)
  for key in pairs(removed) do expect(key, 'zset') end
  for key in pairs(added) do
    if not removed[key] then expect(key, 'zset') end
  end
  if wake then expect(WAKE, 'stream') end

  for _, run in pairs(runs) do
    if run and run.replaces then call('UNLINK', run.key, scopes_key(run.run)) end
    if run and run.staged then
      call('RENAME', run.staged, run.key)
      call('PERSIST', run.key)
    end
    if run and #run.out > 0 then send('HSET', run.key, run.out) end
  end
  for key, members in pairs(removed) do
    local names = {}
    for member in pairs(members) do names[#names + 1] = member end
    send('ZREM', key, names)
  end
  for key, members in pairs(added) do
    local values = {}
    for member, score in pairs(members) do
      values[#values + 1] = score
      values[#values + 1] = member
    end
    send('ZADD', key, values)
  end
  send('HSET', QUEUES, queues)
  send('HSET', SLOTS, slots)
  send('HDEL', SLOTS, slots_gone)
  if recorded then
    for _, run in ipairs(changed_runs) do call('ZADD', UNRECORDED, 'NX', now, run.run) end
  end
  if wake then call('XADD', WAKE, 'MAXLEN', 1, '*', 'w', '') end
  return wake and 1 or 0
end

-- Take a run and these of its dead letters out of all lists. Result: its idempotency key or nil.
local function hide_run(run, letters)
  local name = run.run
  for _, data in ipairs(get_fields(run.key, letters)) do
    if data then
      local node, scope, generation, tenant, _, _, _, _, _, _, status = unpack_row(data)
      leave(dead_key(tenant, status), name .. '\0' .. node .. '\0' .. scope
        .. format('\0%08d', generation))
    end
  end
  leave(runs_key(run.tenant, run.status), name)
  leave(runs_key(run.tenant, run.status, run.workflow), name)
  leave(ENDED, name)
  leave(DEADLINES, name)
  local _, _, _, _, idempotency_key = unpack_row(call('HGET', run.key, 'I'))
  return idempotency_key
end

-- Remove a run that is over and all that belongs to it.
local function remove_run(run)
  local letters = {}
  for generation = 1, run.generation do letters[generation] = 'd' .. generation end
  expect(IDEMPOTENCY, 'hash')
  doomed[#doomed + 1] = { run, hide_run(run, letters) }
end

-- After `commit`: nothing of these runs is shown any more. Result: the idempotency keys that are
-- free again, {tenant \0 key, run}, which a cluster keeps elsewhere as well.
local function remove_doomed()
  local released = {}
  for _, pair in ipairs(doomed) do
    local run, idempotency_key = pair[1], pair[2]
    call('UNLINK', run.key, scopes_key(run.run))
    if recorded then call('ZREM', UNRECORDED, run.run) end
    if idempotency_key then
      local field = run.tenant .. '\0' .. idempotency_key
      call('HDEL', IDEMPOTENCY, field)
      released[#released + 1] = { field, run.run }
    end
  end
  return released
end
