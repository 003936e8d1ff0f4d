-- Tokens: how they come, wait, become ready again and end.

-- Exports. Everything else stays local to this block.
local emit, issue, end_token, make_ready, leave_unreported, note, end_wait, resume

do

-- What a token reads, fixed at the event that makes it ready: the next one.
local function fixed(run, reads)
  local found = unpack_row(reads)
  for _, read in ipairs(found) do read[READ_UPTO] = run[R_SEQ] + 1 end
  return pack(found)
end

-- A new token: it counts.
local function begin_token(run, token)
  tokens[token[T_MEMBER]] = token
  new_tokens[#new_tokens + 1] = token
  changed_tokens[#changed_tokens + 1] = token
  run[R_COUNTER] = run[R_COUNTER] + 1
end

-- Make the target's token ready; false when the instance has one already. `event` is the number of the
-- event that holds the source's output.
function emit(run, hop, source, source_scope, event, joined, DELIVERY)
  local node, scope, live = delivery.node, delivery.scope, delivery.live
  local queue, reads = delivery.queue, delivery.reads
  local member = run[R_NAME] .. '\0' .. node .. '\0' .. scope
  if has_token(run, node, scope, member) then return false end
  -- Any worker can pass a skip on, whatever it takes to run the node.
  if not live then queue, source, source_scope, event, reads = '', '', nil, 0, nil end
  if source_scope == '' then source_scope = nil end
  if reads then reads = fixed(run, reads) end
  begin_token(run, new_token{
    member = member, run = run, node = node, scope = scope, changed = true, new = true,
    due_ms = now, hop = hop, queue = queue, skip = not live or nil, reads = reads,
    source = source, source_scope = source_scope, source_event = event, joined = joined,
    lane = lane_of(run),
  })
  return true
end

-- Make the next item ready, in its own scope: otherwise it is as one that has settled. Nothing else
-- makes this token, so it is not looked for. All items read what the first of them did.
function issue(run, item, scope)
  begin_token(run, new_token{
    member = run[R_NAME] .. '\0' .. item[T_NODE] .. '\0' .. scope, run = run, node = item[T_NODE],
    scope = scope, changed = true, new = true, due_ms = now, hop = item[T_HOP],
    queue = item[T_QUEUE], reads = item[T_READS], source = item[T_SOURCE],
    source_scope = item[T_SOURCE_SCOPE], source_event = item[T_SOURCE_EVENT],
    lane = lane_of(run),
  })
end

-- Make the node ready that lists what to undo, in a scope that no token has had. Any worker takes it.
function undo.list_undos(run, scope)
  begin_token(run, new_token{
    member = run[R_NAME] .. '\0' .. L_UNDO .. '\0' .. scope, run = run, node = L_UNDO,
    scope = scope, changed = true, new = true, due_ms = now, hop = 0, queue = '', source = '',
    source_event = 0,
  })
end

-- A live token ends: it no longer counts.
function end_token(run, token, state, outcome)
  touch_token(token)
  token[T_STATE], token[T_OUTCOME], token[T_DUE_MS] = state, outcome, nil
  -- Where nothing was, Lua would first make room for the nil.
  if token[T_WAIT] then
    token[T_WAIT], token[T_WAIT_KEY], token[T_WAIT_EVENT] = nil, nil, nil
  end
  free_slot(token)
  if token[T_LANE] then token[T_LANE] = nil end
  run[R_COUNTER] = run[R_COUNTER] - 1
end

function make_ready(run, token, due_ms)
  touch_token(token)
  token[T_STATE], token[T_DUE_MS] = 'ready', due_ms
  token[T_WAIT], token[T_WAIT_KEY], token[T_WAIT_EVENT] = nil, nil, nil
  free_slot(token)
  token[T_LANE] = lane_of(run)
end

-- Something has happened to a run that its parent or its children have to learn.
function leave_unreported(run)
  touch_run(run)
  run[R_UNREPORTED] = true
  unreported[#unreported + 1] = run[R_NAME]
end

-- The last event of a run is notable.
function note(run)
  if run[R_NOTABLE] then return end
  touch_run(run)
  run[R_NOTABLE] = run[R_SEQ]
end

-- What a token waits for has come: a worker may take it.
function end_wait(run, token, resolution, resumed)
  touch_token(token)
  token[T_RESOLUTION] = resolution
  append(run, resumed)
  if token[T_WAIT] == L_APPROVAL_WAIT then note(run) end
  token[T_LEASE] = ''
  make_ready(run, token, now)
end

-- Give a waiting token what it waits for; false when it does not wait (any more). `timed_out`: nothing
-- has come, and its time is over.
function resume(tenant, name, node, scope, resolution, by, wait_key, timed_out)
  local token, run = load_token(name, node, scope)
  if not token or run[R_TENANT] ~= tenant or token[T_STATE] ~= 'waiting' then return false end
  if wait_key and token[T_WAIT_KEY] ~= wait_key then return false end
  end_wait(run, token, resolution, events.node_resumed(token, resolution, by, timed_out))
  return true
end

end
