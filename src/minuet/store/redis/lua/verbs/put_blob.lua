-- put_blob: keep bytes that belong to a run. request: tenant, run, reference, bytes. Result: whether
-- the run is there.

local tenant, name, ref, bytes = unpack(unpack_row(request), 1, 4)
local run = load_run(name)
if not run or run[R_TENANT] ~= tenant then return 0 end
call('HSET', blobs_key(name), tenant .. '\0' .. ref, bytes)
return 1
