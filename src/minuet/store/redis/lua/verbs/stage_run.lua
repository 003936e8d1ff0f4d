-- put_run, create_runs: keep a portion of a large run's fields, or its blobs, aside for the call that
-- puts it in its place.
-- request: name of the place, how long to keep it in seconds, {field, value, …}. Result: 1.

local name, seconds, values = unpack(unpack_row(request), 1, 3)
for first = 1, #values, PORTION do
  call('HSET', stage_key(name), unpack(values, first, math.min(first + PORTION - 1, #values)))
end
return call('EXPIRE', stage_key(name), seconds)
