-- write_cells: a hash with the cells, and a sorted set with their names in their order.
-- request: {{name, data or false, whether it is checked, what is expected or false}, …}.
-- Result: 1, or 0 when one is not as expected.

local changes = unpack_row(request)
local cells, names = base .. ':cells', base .. ':cell-names'
expect(cells, 'hash')
expect(names, 'zset')
for _, one in ipairs(changes) do
  if one[3] and call('HGET', cells, one[1]) ~= one[4] then return 0 end
end
for _, one in ipairs(changes) do
  if one[2] then
    call('HSET', cells, one[1], one[2])
    call('ZADD', names, 0, one[1])
  else
    call('HDEL', cells, one[1])
    call('ZREM', names, one[1])
  end
end
return 1
