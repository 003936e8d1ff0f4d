-- mark_logged: the record has these events; and which leases are current.
-- request: marks {run, logged, seq, digest}, leases {run, node, scope, lease}.
-- Result: {{1 or 0, …}, {1 or 0, …}}.

local marks, leases = unpack(unpack_row(request), 1, 2)

-- Whether the run still has just these events: it may have lost some and gone another way since.
local function fits(run, logged, seq, digest)
  if not run or run[R_SEQ] < seq or logged_of(run) ~= logged then return false end
  return redis.sha1hex(concat(read_events(run, logged + 1, seq), '\n')) == digest
end

local marked, current = {}, {}
for i, mark in ipairs(marks) do
  local name, logged, seq, digest = unpack(mark, 1, 4)
  local run = load_run(name)
  marked[i] = 0
  if fits(run, logged, seq, digest) then
    call('HSET', run[R_KEY], F_LOGGED, seq)
    if run[R_SEQ] == seq then call('ZREM', KEY.unlogged, name) end
    marked[i] = 1
  end
end
for i, one in ipairs(leases) do
  local token = load_token(one[HELD_RUN], one[HELD_NODE], one[HELD_SCOPE])
  current[i] = token and token[T_LEASE] == one[HELD_LEASE]
    and (token[T_STATE] == 'leased' or is_open(token)) and 1 or 0
end
return { marked, current }
