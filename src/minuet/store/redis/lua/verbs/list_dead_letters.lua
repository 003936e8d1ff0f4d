-- list_dead_letters: the oldest first. request: tenant, run or nil, statuses, limit.
-- Result: {{run, row}, …}.

local tenant, name, statuses, limit = unpack(unpack_row(request), 1, 4)
local found, answers, wanted = {}, {}, {}
if limit <= 0 then return answers end

local function add(at_ms, member, run, row)
  if row then found[#found + 1] = { at_ms, member, run, row } end
end

for _, status in ipairs(statuses) do
  wanted[status] = true
  local shown = name and {} or call('ZRANGE', dead_key(tenant, status), 0, limit - 1, 'WITHSCORES')
  for i = 1, #shown, 2 do
    local member = shown[i]
    local run, generation = parts(member), tonumber(sub(member, -8))
    local row = call('HGET', RUN .. run, F_DEAD_LETTER .. generation)
    add(tonumber(shown[i + 1]), member, run, row)
  end
end

local run = name and load_run(name)
if run and run[R_TENANT] == tenant then
  for generation = 1, run[R_GENERATION] do
    local row = call('HGET', run[R_KEY], F_DEAD_LETTER .. generation)
    if row then
      local letter = { unpack_row(row) }
      local member = letter_member(name, letter[D_NODE], letter[D_SCOPE], generation)
      add(letter[D_AT_MS], member, name, wanted[letter[D_STATUS]] and row)
    end
  end
end

table.sort(found, function(a, b)
  if a[1] ~= b[1] then return a[1] < b[1] end
  return precedes(a[2], b[2])
end)
for i = 1, math.min(limit, #found) do answers[i] = { found[i][3], found[i][4] } end
return answers
