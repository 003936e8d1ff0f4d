-- list_dead_letters: the oldest first. request: tenant, run or nil, statuses, the time and the name
-- of the one that they come after, limit. Result: {{run, row}, …}.

local tenant, name, statuses, after_ms, after, limit = unpack(unpack_row(request), 1, 6)
local found, answers, wanted = {}, {}, {}
if limit <= 0 then return answers end

local function add(at_ms, member, run, row)
  if row then found[#found + 1] = { at_ms, member, run, row } end
end

-- How many of a list come no later than the one named, which may have left it.
local function rank(key)
  local place = call('ZRANK', key, after)
  if place then return place + 1 end
  local count = call('ZCOUNT', key, '-inf', '(' .. format('%.0f', after_ms))
  for _, member in ipairs(call('ZRANGEBYSCORE', key, after_ms, after_ms)) do
    if precedes(member, after) then count = count + 1 end
  end
  return count
end

for _, status in ipairs(statuses) do
  wanted[status] = true
  local key = dead_key(tenant, status)
  local first = not name and rank(key)
  local shown = name and {} or call('ZRANGE', key, first, first + limit - 1, 'WITHSCORES')
  for i = 1, #shown, 2 do
    local member = shown[i]
    local run, node, scope = parts(sub(member, 1, -10))
    local row = repairs.find_letter(RUN .. run, node, scope, tonumber(sub(member, -8)))
    add(tonumber(shown[i + 1]), member, run, row)
  end
end

local run = name and load_run(name)
if run and run[R_TENANT] == tenant then
  for _, row in pairs(get_fields(run[R_KEY], undo.letter_fields(run))) do
    if row then
      local letter = { unpack_row(row) }
      local at_ms = letter[D_AT_MS]
      local member = letter_member(name, letter[D_NODE], letter[D_SCOPE], letter[D_GENERATION])
      local is_later = at_ms > after_ms or (at_ms == after_ms and precedes(after, member))
      add(at_ms, member, name, is_later and wanted[letter[D_STATUS]] and row)
    end
  end
end

-- One list is in this order already.
if name or #statuses > 1 then
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return precedes(a[2], b[2])
  end)
end
for i = 1, math.min(limit, #found) do answers[i] = { found[i][3], found[i][4] } end
return answers
