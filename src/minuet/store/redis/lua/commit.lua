-- Writing what a step has touched. First everything that can be wrong is checked (the kinds of
-- the keys), then all is written with commands that cannot fail: a script that stops in the middle
-- keeps the writes made so far.

-- Exports. Everything else stays local to this block.
local expect, commit

do

local function send(command, key, values, count)
  count = count or #values
  for first = 1, count, PORTION do
    call(command, key, unpack(values, first, math.min(first + PORTION - 1, count)))
  end
end

-- Where the changed tokens are shown now. Result: whether another worker can take one of them.
local function move_tokens()
  local wake = false
  for i = 1, #changed_tokens do
    local token = changed_tokens[i]
    local run, state = token[T_RUN], token[T_STATE]
    local queue = queue_of(run[R_TENANT], token[T_QUEUE])
    if token[T_NEW] then queue[4] = true end
    if state == 'leased' then
      if not token[T_WAS_LEASED] then queue[3] = queue[3] + 1 end
      enter(LEASES, token[T_MEMBER], token[T_DUE_MS])
    else
      if token[T_WAS_LEASED] then queue[3] = queue[3] - 1 end
      if state == 'ready' and not token[T_LANE] then
        wake = true
        enter(queue[2], token[T_MEMBER], token[T_DUE_MS])
      elseif state ~= 'done' then
        show(token, enter)
      end
    end
    if not token.gone then
      local field = token[T_FIELD] or F_TOKEN .. token[T_NODE] .. '\0' .. token[T_SCOPE]
      put(run, field, pack_token(token))
    end
  end
  return wake
end

-- Where the changed runs were listed and where they are now.
local function move_runs()
  for i = 1, #changed_runs do
    local run = changed_runs[i]
    local status, old_status = run[R_STATUS], run[R_OLD_STATUS]
    local deadline_ms, ended_ms = run[R_DEADLINE_MS] or false, run[R_ENDED_MS] or false
    local tenant, workflow, name = run[R_TENANT], run[R_WORKFLOW], run[R_NAME]
    if status ~= old_status then
      if old_status then
        leave(runs_key(tenant, old_status), name)
        leave(runs_key(tenant, old_status, workflow), name)
      end
      enter(runs_key(tenant, status), name, 0)
      enter(runs_key(tenant, status, workflow), name, 0)
    end
    if deadline_ms ~= run[R_OLD_DEADLINE] then
      if deadline_ms then enter(KEY.deadlines, name, deadline_ms) else leave(KEY.deadlines, name) end
    end
    if ended_ms ~= run[R_OLD_ENDED] then
      if ended_ms then enter(ENDED, name, ended_ms) else leave(ENDED, name) end
    end
    if run[R_UNREPORTED] then enter(KEY.unreported, name, 0) end
    if run[R_NOTABLE] then enter(KEY.notable, name, 0) end
    put(run, F_RUN, pack_run(run))
  end
end

local function list_arrivals()
  for _, join in pairs(joins) do
    local run, name = join[J_RUN], join[J_NAME]
    for _, arrival in ipairs(join[J_PENDING]) do
      join[J_LISTED] = join[J_LISTED] + 1
      put(run, F_LISTED .. name .. '\0' .. join[J_LISTED], pack(unpack(arrival, 1, N_LAST)))
    end
    put(run, F_JOIN .. name, pack(unpack(join, 1, J_LAST)))
  end
end

-- Numbers of leased tokens: {field, new value, …}. A queue that was ever used stays known, and one
-- that has stored tokens was used before.
local function count_leased()
  local set = {}
  for _, of_tenant in pairs(queues) do
    for _, queue in pairs(of_tenant) do
      if queue[3] ~= 0 or queue[4] then
        local old = call('HGET', QUEUES, queue[1])
        if queue[3] ~= 0 or not old then
          set[#set + 1] = queue[1]
          set[#set + 1] = format('%d', tonumber(old or 0) + queue[3])
        end
      end
    end
  end
  return set
end

-- Numbers of holders: {field, new value, …}; fields to remove.
local function count_slots()
  local set, gone = {}, {}
  for field, delta in pairs(holders) do
    local old = call('HGET', SLOTS, field)
    local value = tonumber(old or 0) + delta
    if value ~= 0 then
      set[#set + 1] = field
      set[#set + 1] = format('%d', value)
    elseif old then
      gone[#gone + 1] = field
    end
  end
  return set, gone
end

-- What the feed lists of this call, in one string: an argument for each run would cost more, and so
-- would numbers whose text is not known.
local function list_events()
  local listed, count = {}, 0
  for i = 1, #changed_runs do
    local run = changed_runs[i]
    if run[R_FED] then
      listed[count + 1] = run[R_NAME]
      listed[count + 2], listed[count + 3] = digits(run[R_FED]), digits(run[R_SEQ])
      count = count + 3
    end
  end
  return concat(listed, '\0')
end

function expect(key, kind)
  local found = call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then
    error({ err = 'WRONGTYPE ' .. key:gsub('%z', '|') .. ' is a ' .. found .. ', not a ' .. kind })
  end
end

function commit()
  promote_waiters()
  list_arrivals()
  local wake = move_tokens()
  move_runs()
  local leased = count_leased()
  local slots, slots_gone = count_slots()
  local first = next(removed)
  for key in pairs(removed) do
    if key ~= first then expect(key, 'zset') end
  end
  for key in pairs(added) do
    if not removed[key] then expect(key, 'zset') end
  end
  if wake then expect(WAKE, 'stream') end
  if #ended > 0 then expect(ENDS, 'stream') end
  local listed = logged and '' or list_events()
  if listed ~= '' then expect(FEED, 'stream') end

  -- The first key of these was not checked: if it is of another kind, nothing is written yet.
  for key, members in pairs(removed) do send('ZREM', key, members) end
  for i = 1, #written_runs do
    local run = written_runs[i]
    if run.replaces then
      call('UNLINK', run[R_KEY], scopes_key(run[R_NAME]), kept_key(run[R_NAME]))
    end
    if run.staged then
      call('RENAME', run.staged, run[R_KEY])
      call('PERSIST', run[R_KEY])
    end
    send('HSET', run[R_KEY], run[R_OUT], run[R_COUNT])
  end
  for key, members in pairs(added) do send('ZADD', key, members) end
  send('HSET', QUEUES, leased)
  send('HSET', SLOTS, slots)
  send('HDEL', SLOTS, slots_gone)
  if logged then
    for _, run in ipairs(changed_runs) do call('ZADD', KEY.unlogged, 'NX', now, run[R_NAME]) end
  end
  if listed ~= '' then call('XADD', FEED, 'MAXLEN', '~', FEED_MAX, '*', 'e', listed) end
  if wake then call('XADD', WAKE, 'MAXLEN', 1, '*', 'w', '') end
  if #ended > 0 then call('XADD', ENDS, 'MAXLEN', 1, '*', 'e', '') end
  return wake and 1 or 0
end

end
