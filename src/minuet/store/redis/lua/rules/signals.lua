-- Signals: a run's signals of one name are a queue, and so are the instances that wait for it. As
-- `store/rules/signals.py`.

-- Exports. Everything else stays local to this block.
local receive_kept, is_missing, find_awaited, receive_in_step, send_signal

do

local function is_reserved(name) return sub(name, 1, 1) == L_RESERVED_SIGNAL end

-- The signals of a run that no instance has received by now, the oldest first.
local function kept_signals(run)
  local kept = run.kept_signals
  if kept then return kept end
  kept = {}
  run.kept_signals = kept
  local ids, fields = call('ZRANGE', kept_key(run[R_NAME]), 0, -1), {}
  for i, id in ipairs(ids) do fields[i] = F_SIGNAL .. id end
  for i, row in ipairs(get_fields(run[R_KEY], fields)) do
    local signal = { unpack_row(row) }
    signal[S_ID], kept[i] = ids[i], signal
  end
  return kept
end

-- The tokens of a run that a sorted set of waiting ones shows, in the order of their keys.
local function waiting_in(run, waiting)
  local found = {}
  local from, to = '[' .. run[R_NAME] .. '\0', '(' .. run[R_NAME] .. '\1'
  for _, member in ipairs(call('ZRANGEBYLEX', waiting, from, to)) do
    found[#found + 1] = load_token(parts(member)) or nil
  end
  return found
end

local function receive(run, token, signal, payload)
  signal[S_NODE], signal[S_SCOPE] = token[T_NODE], token[T_SCOPE]
  put(run, F_SIGNAL .. signal[S_ID], pack(unpack(signal, 1, S_LAST)))
  end_wait(run, token, payload, events.node_resumed(token, nil, '', false, signal[S_SEQ]))
end

-- Give a token that has just begun to wait the oldest signal of that name, if there is one.
function receive_kept(run, token)
  local kept = kept_signals(run)
  for i, signal in ipairs(kept) do
    if signal[S_NAME] == token[T_WAIT_KEY] then
      table.remove(kept, i)
      leave(kept_key(run[R_NAME]), signal[S_ID])
      local record = call('HGET', run[R_KEY], event_field(signal[S_SEQ]))
      receive(run, token, signal, output_of(record))
      return
    end
  end
end

-- Whether a wait with this key is for signals of this name: `events.is_awaited`.
local function is_awaited(name, key)
  for _, entry in ipairs(cjson.decode(key)) do
    if name == entry then return true end
    local is_family = sub(entry, 1, 1) == '$' and sub(entry, -1) == ':'
    if is_family and sub(name, 1, #entry) == entry then return true end
  end
  return false
end

-- There is a signal that a function waits for, which stays kept.
local function wake(run, token)
  end_wait(run, token, 'null', events.node_resumed(token, nil, '', false))
end

-- Whether a child run is not there, although it was started: this server has lost its last changes
-- since. The node that is to wait for it starts it again.
function is_missing(run, child)
  local found = load_run(child)
  return not found or found[R_TENANT] ~= run[R_TENANT]
end

-- End the wait of a function that has just begun, if a signal is kept that it names, or a child run
-- that it names is lost.
function find_awaited(run, token)
  local key = token[T_WAIT_KEY] or ''
  if key == '' then return end
  for _, signal in ipairs(kept_signals(run)) do
    if is_awaited(signal[S_NAME], key) then return wake(run, token) end
  end
  for _, name in ipairs(cjson.decode(key)) do
    local child = sub(name, #L_CHILD_SIGNAL + 1)
    if child ~= '' and name == L_CHILD_SIGNAL .. child and is_missing(run, child) then
      return wake(run, token)
    end
  end
end

-- End the waits of all functions of a run that name a signal.
local function wake_functions(run, name)
  for _, token in ipairs(waiting_in(run, waiting_key(run[R_TENANT], L_FLOW_WAIT))) do
    local key = token[T_WAIT_KEY] or ''
    if key ~= '' and is_awaited(name, key) then wake(run, token) end
  end
end

-- Let the holder of a token receive a signal; false when it is not kept (any more).
function receive_in_step(run, token, seq)
  local taken = run.taken_signals or {}
  run.taken_signals = taken
  local id = call('ZRANGEBYSCORE', kept_key(run[R_NAME]), seq, seq)[1]
  if not id or taken[id] then return false end
  taken[id] = true
  local signal = { unpack_row(call('HGET', run[R_KEY], F_SIGNAL .. id)) }
  signal[S_NODE], signal[S_SCOPE] = token[T_NODE], token[T_SCOPE]
  put(run, F_SIGNAL .. id, pack(unpack(signal, 1, S_LAST)))
  leave(kept_key(run[R_NAME]), id)
  return true
end

-- The instance that has waited for a signal the longest, or nil.
local function longest_waiting(run, name)
  local longest
  for _, token in ipairs(waiting_in(run, waiting_key(run[R_TENANT], L_SIGNAL_WAIT, name))) do
    if not longest or (token[T_WAIT_EVENT] or 0) < (longest[T_WAIT_EVENT] or 0) then
      longest = token
    end
  end
  return longest
end

-- Whether a run keeps too many signals for another one of this name.
local function is_full(run, name)
  if is_reserved(name) then return false end
  local users = 0
  for _, signal in ipairs(kept_signals(run)) do
    if not is_reserved(signal[S_NAME]) then users = users + 1 end
  end
  return users >= KEPT_SIGNALS_MAX
end

-- Give a signal to the instance that has waited the longest, or keep it. Result: nil, or why not. A
-- signal that the run has already changes nothing, whatever has become of the run.
function send_signal(run, CHANGE)
  local name, id, payload = change.name, change.id, change.data
  local known = call('HGET', run[R_KEY], F_SIGNAL .. id)
  if known then
    local known_name = unpack_row(known)
    return known_name ~= name and 'has a signal of this id with the name ' .. known_name or nil
  end
  if undo.CLOSED[run[R_STATUS]] then
    return 'is ' .. run[R_STATUS] .. ' and cannot receive signals'
  end
  local longest = longest_waiting(run, name)
  if not longest and is_full(run, name) then
    return format('keeps %d signals that no node has received, and takes no more',
      KEPT_SIGNALS_MAX)
  end
  local seq = append_record(run, run[R_SEQ] + 1, signal_record(name, id, payload, change.by))
  local signal = new_signal{ id = id, name = name, seq = seq }
  if longest then
    receive(run, longest, signal, payload)
  else
    put(run, F_SIGNAL .. id, pack(unpack(signal, 1, S_LAST)))
    enter(kept_key(run[R_NAME]), id, seq)
    wake_functions(run, name)
  end
end

end
