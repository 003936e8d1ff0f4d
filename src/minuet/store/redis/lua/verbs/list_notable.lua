-- list_notable: runs with events that people outside may want to know of, by name. request: after, limit.
-- Result: {{run, R, I, i}, …}.

local after, limit = unpack(unpack_row(request), 1, 2)
local answers = {}
if limit <= 0 then return answers end
for _, name in ipairs(call('ZRANGEBYLEX', NOTABLE, '(' .. after, '+', 'LIMIT', 0, limit)) do
  local run = load_run(name)
  if run then answers[#answers + 1] = run_reply(run) end
end
return answers
