-- list_cells: those whose names begin with a prefix. request: prefix, after, limit.
-- Result: {name, data, …}.

local prefix, after, limit = unpack(unpack_row(request), 1, 3)
local answers = {}
if limit <= 0 then return answers end
local least = after >= prefix and after ~= '' and '(' .. after or '[' .. prefix
for _, name in ipairs(call('ZRANGEBYLEX', base .. ':cell-names', least,
    '(' .. prefix .. '\244\143\191\191', 'LIMIT', 0, limit)) do
  answers[#answers + 1] = name
  answers[#answers + 1] = call('HGET', base .. ':cells', name)
end
return answers
