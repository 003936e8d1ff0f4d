-- A verb as the server knows it: a function that begins with nothing of the call before it.

local function verb(name, flags, act)
  local function callback(keys, arguments)
    begin_rows(keys[1], arguments[2] ~= nil)
    begin_events()
    begin_changes()
    begin_request(arguments[1])
    begin_answer()
    return act(arguments[1])
  end
  redis.register_function({ function_name = LIBRARY .. '_' .. name, callback = callback,
    flags = flags })
end
