-- read_unlogged: runs with the events that the record is not known to have.
-- request: runs, whether to read all events. Result: {{run reply, logged, digest, events}, …}.

local names, whole = unpack(unpack_row(request), 1, 2)
local found = {}
for _, name in ipairs(names) do
  local run = load_run(name)
  if run then
    local logged = whole and 0 or logged_of(run)
    local events = read_events(run, logged + 1, run[R_SEQ])
    found[#found + 1] = { replies.run(run), logged, redis.sha1hex(concat(events, '\n')), events }
  end
end
return found
