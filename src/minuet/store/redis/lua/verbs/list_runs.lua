-- list_runs: the newest first. request: tenant, statuses, workflow or nil, before or nil, limit.
-- Result: {{run, R, I, i}, …}.

local tenant, statuses, workflow, before, limit = unpack(unpack_row(request), 1, 5)
local names, answers = {}, {}
if limit <= 0 then return answers end
for _, status in ipairs(statuses) do
  local from = before and '(' .. before or '+'
  local key = runs_key(tenant, status, workflow)
  for _, name in ipairs(call('ZREVRANGEBYLEX', key, from, '-', 'LIMIT', 0, limit)) do
    names[#names + 1] = name
  end
end
table.sort(names, function(a, b) return precedes(b, a) end)
for i = 1, math.min(limit, #names) do
  local run = load_run(names[i])
  local answer = run and replies.run(run) or replies.damaged(tenant, names[i])
  if answer then answers[#answers + 1] = answer end
end
return answers
