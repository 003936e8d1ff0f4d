-- read_unrecorded: runs with the events that the record is not known to have.
-- request: runs, whether to read all events. Result: {{run reply, recorded, digest, events}, …}.

local names, whole = unpack(unpack_row(request), 1, 2)
local found = {}
for _, name in ipairs(names) do
  local run = load_run(name)
  if run then
    local recorded = whole and 0 or recorded_of(run)
    local events = read_events(run, recorded + 1, run[R_SEQ])
    found[#found + 1] = { run_reply(run), recorded, redis.sha1hex(concat(events, '\n')), events }
  end
end
return found
