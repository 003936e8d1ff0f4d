-- Signals: a run's signals of one name are a queue, and so are the instances that wait for it. As
-- `store/rules/signals.py`.

-- Exports. Everything else stays local to this block.
local receive_kept, receive_in_step, send_signal

do

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
  local waiting = waiting_key(run[R_TENANT], L_SIGNAL_WAIT, name)
  local from, to = '[' .. run[R_NAME] .. '\0', '(' .. run[R_NAME] .. '\1'
  for _, member in ipairs(call('ZRANGEBYLEX', waiting, from, to)) do
    local token = load_token(parts(member))
    if token and (not longest or (token[T_WAIT_EVENT] or 0) < (longest[T_WAIT_EVENT] or 0)) then
      longest = token
    end
  end
  return longest
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
  if TERMINAL[run[R_STATUS]] then
    return 'is ' .. run[R_STATUS] .. ' and cannot receive signals'
  end
  local longest = longest_waiting(run, name)
  if not longest and #kept_signals(run) >= KEPT_SIGNALS_MAX then
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
  end
end

end
