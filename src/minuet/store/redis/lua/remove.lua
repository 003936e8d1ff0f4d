-- Removing runs, with all that belongs to them.

-- Take a run and these of its dead letters out of all lists. Result: its idempotency key or nil.
local function hide_run(run, letters)
  local name, tenant, status = run[R_NAME], run[R_TENANT], run[R_STATUS]
  for _, data in ipairs(get_fields(run[R_KEY], letters)) do
    if data then
      local letter = { unpack_row(data) }
      leave(dead_key(letter[D_TENANT], letter[D_STATUS]),
        letter_member(name, letter[D_NODE], letter[D_SCOPE], letter[D_GENERATION]))
    end
  end
  leave(runs_key(tenant, status), name)
  leave(runs_key(tenant, status, run[R_WORKFLOW]), name)
  leave(ENDED, name)
  leave(KEY.deadlines, name)
  leave(KEY.unreported, name)
  leave(KEY.notable, name)
  local origin = { unpack_row(call('HGET', run[R_KEY], F_ORIGIN)) }
  return origin[O_IDEMPOTENCY_KEY]
end

-- Whether a run is over, and no relative needs it any more.
local function is_deletable(run)
  if not TERMINAL[run[R_STATUS]] or run[R_UNREPORTED] then return false end
  if not run[R_PARENT_NODE] then return true end
  load_origin(run)
  local parent = load_run(({ unpack_row(run[R_COLD]) })[O_PARENT])
  return not parent or TERMINAL[parent[R_STATUS]]
end

-- Remove a run that is over and all that belongs to it.
local function remove_run(run)
  expect(KEY.idempotency, 'hash')
  doomed[#doomed + 1] = { run, hide_run(run, undo.letter_fields(run)) }
end

-- After `commit`: nothing of these runs is shown any more. Result: the idempotency keys that are
-- free again, {tenant \0 key, run}, which a cluster keeps elsewhere as well.
local function remove_doomed()
  local released = {}
  for _, pair in ipairs(doomed) do
    local run, idempotency_key = pair[1], pair[2]
    call('UNLINK', run[R_KEY], scopes_key(run[R_NAME]), kept_key(run[R_NAME]),
      blobs_key(run[R_NAME]))
    if logged then call('ZREM', KEY.unlogged, run[R_NAME]) end
    if idempotency_key then
      local field = run[R_TENANT] .. '\0' .. idempotency_key
      call('HDEL', KEY.idempotency, field)
      released[#released + 1] = { field, run[R_NAME] }
    end
  end
  return released
end
