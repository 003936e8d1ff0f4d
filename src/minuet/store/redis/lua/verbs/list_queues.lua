-- list_queues: what waits and what runs. Result: {{tenant \0 queue, ready, leased, oldest}, …}.

local answers = {}
local fields = call('HGETALL', QUEUES)
for i = 1, #fields, 2 do
  local queue, leased = fields[i], tonumber(fields[i + 1])
  local ready, oldest = 0, nil
  for _, kind in ipairs({ READY, ASIDE }) do
    local key = kind .. queue
    ready = ready + call('ZCARD', key)
    local first = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    if first and (not oldest or first < oldest) then oldest = first end
  end
  if ready + leased > 0 then answers[#answers + 1] = { queue, ready, leased, oldest or false } end
end
return answers
