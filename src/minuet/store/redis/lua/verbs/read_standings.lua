-- read_standings: how far runs are. request: runs. Result: {{run, seq, logged}, …}.

local found = {}
for _, name in ipairs(unpack_row(request)[1]) do
  local run = load_run(name)
  if run then found[#found + 1] = { name, run[R_SEQ], logged_of(run) } end
end
return found
