-- What a token taken comes with: the outputs that it needs, and its run. An answer is one flat list:
-- a table for each token would cost more than all the rest.

-- What the other parts see of this one: the rest would be in their way.
local grant, add_header

do

-- The output of an instance, found by the number of its event (0: nobody knew it then).
local function add_output(found, run, node, scope, event)
  if event == 0 then
    local token = load_token(run[R_NAME], node, scope)
    event = token and token[T_EVENT] or 0
    if event == 0 then return 0 end
  end
  local data = run[R_OUTPUTS] and run[R_OUTPUTS][event]
  if not data then
    local record = call('HGET', run[R_KEY], event_field(event))
    -- An event of this very step that has no output is not there yet.
    data = record and output_of(record) or 'null'
  end
  local count = #found
  found[count + 1], found[count + 2], found[count + 3] = node, scope, data
  return 1
end

local function add_arrived(found, run, token)
  local name, count = token[T_NODE] .. '\0' .. token[T_SCOPE], 0
  local join = joins[token[T_MEMBER]]
  if not join then
    local data = call('HGET', run[R_KEY], 'j' .. name)
    if not data then return 0 end
    join = parse_join(data)
  end
  local fields = {}
  for i = 1, join.listed do fields[i] = 'n' .. name .. '\0' .. i end
  for _, data in ipairs(get_fields(run[R_KEY], fields)) do
    local source, scope, event = unpack_row(data)
    count = count + add_output(found, run, source, scope, event)
  end
  for _, arrival in ipairs(join.pending) do
    count = count + add_output(found, run, unpack(arrival, 1, 3))
  end
  return count
end

-- An instance that had an output by an event (0 or nil: that has one), or nil.
local function with_output(run, node, scope, upto)
  local token = load_token(run[R_NAME], node, scope)
  if not token or token[T_EVENT] == 0 or token[T_SKIP] then return nil end
  if upto and upto ~= 0 and token[T_EVENT] > upto then return nil end
  return token
end

-- The latest of the instances whose scope begins with `prefix`, of those that had an output by
-- event `upto`. Later ones are stepped over: there are some only if others were faster.
local function latest_of(run, node, prefix, upto)
  local latest
  if run[R_SCOPED] then
    local key, from, first = scopes_key(run[R_NAME]), node .. '\0' .. prefix, 0
    repeat
      local count = first == 0 and 1 or 100
      local names = call('ZREVRANGEBYLEX', key, '(' .. from .. '\255', '[' .. from,
        'LIMIT', first, count)
      first = first + count
      for _, name in ipairs(names) do
        latest = with_output(run, node, sub(name, #node + 2), upto)
        if latest then break end
      end
    until latest or #names < count
    local entered = added[key] or {}
    for i = 2, #entered, 2 do
      local name = entered[i]
      if sub(name, 1, #from) == from
        and (not latest or precedes(latest[T_SCOPE], sub(name, #node + 2)))
      then
        latest = with_output(run, node, sub(name, #node + 2), upto) or latest
      end
    end
  end
  if not latest and prefix == '' then latest = with_output(run, node, '', upto) end
  return latest
end

local function add_latest(found, run, node, prefix, upto)
  local token = latest_of(run, node, prefix, upto)
  return token and add_output(found, run, node, token[T_SCOPE], token[T_EVENT]) or 0
end

-- Add the thirteen values of a token to an answer, followed by three for each of its outputs.
function grant(answer, token)
  local run, at = token[T_RUN], #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = run[R_NAME], token[T_NODE], token[T_SCOPE]
  answer[at + 4], answer[at + 5] = token[T_SKIP] and 1 or 0, token[T_ATTEMPT]
  answer[at + 6], answer[at + 7] = token[T_EXPIRY] or 0, token[T_DELIVERY]
  answer[at + 8], answer[at + 9] = token[T_HOP], token[T_CURSOR] or 0
  answer[at + 10], answer[at + 11] = token[T_RESOLUTION] or false, token[T_SLOT] or ''
  answer[at + 12], answer[at + 13] = 0, 0
  local inputs, reads = 0, 0
  if not token[T_SKIP] then
    if token[T_SOURCE] ~= '' then
      inputs = add_output(answer, run, token[T_SOURCE], token[T_SOURCE_SCOPE] or '',
        token[T_SOURCE_EVENT])
    elseif token[T_JOINED] then
      inputs = add_arrived(answer, run, token)
    end
  end
  if token[T_READS] then
    for _, read in ipairs(unpack_row(token[T_READS])) do
      reads = reads + add_latest(answer, run, read[1], read[2], read[3])
    end
  end
  if (token[T_CURSOR] or 0) ~= 0 then
    reads = reads + add_output(answer, run, token[T_NODE], token[T_SCOPE], token[T_EVENT])
  end
  answer[at + 12], answer[at + 13] = inputs, reads
end

-- Add the six values of a run to an answer.
function add_header(answer, run)
  load_origin(run)
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = run[R_NAME], run[R_PLAN], run[R_GENERATION]
  answer[at + 4], answer[at + 5] = run[R_DEADLINE_MS] or false, run[R_COLD]
  answer[at + 6] = run[R_INPUT]
end

end
