-- attach: belong to a record, unless it is another one already. request: its id, where it lies.
-- Result: {{id, where}} of the record that this partition belongs to.

local id, shown = unpack(unpack_row(request), 1, 2)
local known = call('GET', KEY.record)
if known then
  local known_id, known_shown = unpack_row(known)
  if known_id ~= id then return { { known_id, known_shown } } end
end
call('SET', KEY.record, pack(id, shown))
return { { id, shown } }
