-- mark_reported: the relatives of a run know what happened to it. request: tenant, run, seq.
-- Result: 1 or 0.

local tenant, name, seq = unpack(unpack_row(request), 1, 3)
if not mark_reported(tenant, name, seq) then return 0 end
commit()
return 1
