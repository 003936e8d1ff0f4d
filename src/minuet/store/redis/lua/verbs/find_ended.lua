-- wait_for_end: which of some runs are over. request: runs. Result: {run, …}.

local found = {}
for _, name in ipairs(unpack_row(request)[1]) do
  local run = load_run(name)
  if run and TERMINAL[run[R_STATUS]] then found[#found + 1] = name end
end
return found
