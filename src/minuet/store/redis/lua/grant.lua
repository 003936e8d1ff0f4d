-- What a token taken comes with: the outputs that it needs, and its run.

local function output_of(record)
  local _, last, first_byte, last_byte = find(record, '^%d+ (%d+) (%d+) ')
  if first_byte == '0' then return 'null' end
  return sub(record, last + first_byte, last + last_byte)
end

-- The output of an instance, found by the number of its event (0: nobody knew it then).
local function add_output(found, run, node, scope, event)
  if event == 0 then
    local token = load_token(run.run, node, scope)
    event = token and token.event or 0
    if event == 0 then return end
  end
  local data = run.outputs[event]
  if not data then
    local record = call('HGET', run.key, 'e' .. event)
    if not record then return end
    data = output_of(record)
  end
  local count = #found
  found[count + 1], found[count + 2], found[count + 3] = node, scope, data
end

local function add_arrived(found, run, token)
  local name = token.node .. '\0' .. token.scope
  local join = joins[token.member]
  if not join then
    local data = call('HGET', run.key, 'j' .. name)
    if not data then return end
    join = parse_join(data)
  end
  local fields = {}
  for i = 1, join.listed do fields[i] = 'n' .. name .. '\0' .. i end
  for _, data in ipairs(get_fields(run.key, fields)) do
    local source, scope, event = unpack_row(data)
    add_output(found, run, source, scope, event)
  end
  for _, arrival in ipairs(join.pending) do add_output(found, run, unpack(arrival, 1, 3)) end
end

-- The latest scope in which a node has an output, among those that begin with `prefix`.
local function add_latest(found, run, node, prefix)
  local latest
  local from = node .. '\0' .. prefix
  if run.scoped then
    local key = scopes_key(run.run)
    latest = call('ZREVRANGEBYLEX', key, '(' .. from .. '\255', '[' .. from, 'LIMIT', 0, 1)[1]
    for member in pairs(added[key] or {}) do
      local fits = sub(member, 1, #from) == from
      if fits and (not latest or precedes(latest, member)) then latest = member end
    end
  end
  if latest then
    add_output(found, run, node, sub(latest, #node + 2), 0)
  elseif prefix == '' then
    local token = load_token(run.run, node, '')
    if token and token.event ~= 0 and not token.skip then
      add_output(found, run, node, '', token.event)
    end
  end
end

local function grant(token)
  local run = load_run(token.run)
  local inputs, reads = {}, {}
  if not token.skip then
    if token.source ~= '' then
      add_output(inputs, run, token.source, token.source_scope, token.source_event)
    elseif token.joined then
      add_arrived(inputs, run, token)
    end
  end
  if token.reads ~= '' then
    for _, read in ipairs(unpack_row(token.reads)) do add_latest(reads, run, read[1], read[2]) end
  end
  if token.cursor ~= 0 then add_output(reads, run, token.node, token.scope, token.event) end
  return { token.run, token.node, token.scope, token.lease, token.skip and 1 or 0, token.attempt,
    token.expiry, token.delivery, token.hop, token.taken_ms, token.cursor,
    token.resolution or false, token.slot, inputs, reads }
end
