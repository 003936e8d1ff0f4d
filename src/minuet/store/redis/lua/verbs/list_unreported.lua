-- list_unreported: runs whose relatives have to learn of something, by name. request: after, limit.
-- Result: {{run, R, I, i}, …}.

local after, limit = unpack(unpack_row(request), 1, 2)
local answers = {}
if limit <= 0 then return answers end
for _, name in ipairs(call('ZRANGEBYLEX', UNREPORTED, '(' .. after, '+', 'LIMIT', 0, limit)) do
  local run = load_run(name)
  if run then answers[#answers + 1] = run_reply(run) end
end
return answers
