-- mark_noted: the notable events of a run up to one of them were passed on. request: tenant, run, upto.
-- Result: 1 or 0.

local tenant, name, upto = unpack(unpack_row(request), 1, 3)
if not mark_noted(tenant, name, upto) then return 0 end
commit()
return 1
