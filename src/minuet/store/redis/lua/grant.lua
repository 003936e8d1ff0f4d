-- What a token taken comes with: the outputs that it needs, and its run. An answer is one flat list:
-- a table for each token would cost more than all the rest.

-- Exports. Everything else stays local to this block.
local begin_answer, fit, grant, add_header

do

--: As many outputs may be loaded before their size is known.
local UNSIZED = 16

--: In place of the bytes that are too many: what the token reads cannot be read.
local DAMAGED = -1

--: Before the name of a node whose instance failed: no node has it in its name.
local FAILED = '!'

--: How many outputs are written in the answer, and how many bytes more may come.
local sent_count, bytes_left

-- A run's R_SENT has what is to be in the answer, by event: the data; true: it is not loaded yet; a
-- number: it is written there, as the output of this number.
-- A token's T_FIT is the event of the one output that it needs, or {inputs, reads, bytes if they are
-- too many, whether the last that is read is its own}. Outputs are node, scope and event, each.

function begin_answer()
  sent_count, bytes_left = 0, REPLY_BYTES_MAX
end

-- The output that an event holds, and the size of the event.
local function load_output(run, event)
  local data = run[R_OUTPUTS] and run[R_OUTPUTS][event]
  if data then return data, #data end
  local record = call('HGET', run[R_KEY], event_field(event))
  -- An event of this very step that has no output is not there yet.
  if not record then return 'null', 4 end
  return output_of(record), #record - HEAD_BYTES
end

local function size_of(run, event)
  local data = run[R_OUTPUTS] and run[R_OUTPUTS][event]
  if data then return #data end
  return math.max(call('HSTRLEN', run[R_KEY], event_field(event)) - HEAD_BYTES, 4)
end

-- Add the output of an instance, by the number of its event (0: it was not known then).
local function add_output(found, run, node, scope, event)
  if event == 0 then
    local token = load_token(run[R_NAME], node, scope)
    event = token and token[T_EVENT] or 0
    if event == 0 then return end
  end
  local count = #found
  found[count + 1], found[count + 2], found[count + 3] = node, scope, event
end

local function add_arrival(found, run, arrival)
  add_output(found, run, arrival[N_SOURCE], arrival[N_SOURCE_SCOPE], arrival[N_EVENT])
end

local function add_arrived(found, run, token)
  local name = token[T_NODE] .. '\0' .. token[T_SCOPE]
  local join = joins[token[T_MEMBER]]
  if not join then
    local data = call('HGET', run[R_KEY], F_JOIN .. name)
    if not data then return end
    join = parse_join(data)
  end
  local fields = {}
  for i = 1, join[J_LISTED] do fields[i] = F_LISTED .. name .. '\0' .. i end
  for _, data in ipairs(get_fields(run[R_KEY], fields)) do
    local arrival = { pcall(unpack_row, data) }
    if table.remove(arrival, 1) then add_arrival(found, run, arrival) end
  end
  for _, arrival in ipairs(join[J_PENDING]) do add_arrival(found, run, arrival) end
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

-- Add the outputs of all instances whose scope begins with `prefix`, of those that had one by event
-- `upto`, in the order of their scopes. A mark before the node says that the instance failed.
local function add_every(found, run, node, prefix, upto)
  local from, scopes = node .. '\0' .. prefix, {}
  if run[R_SCOPED] then
    local key = scopes_key(run[R_NAME])
    local names = call('ZRANGEBYLEX', key, '[' .. from, '(' .. from .. '\255')
    for _, name in ipairs(names) do scopes[#scopes + 1] = sub(name, #node + 2) end
    local entered, known = added[key] or {}, #scopes
    for i = 2, #entered, 2 do
      if sub(entered[i], 1, #from) == from then scopes[#scopes + 1] = sub(entered[i], #node + 2) end
    end
    if #scopes > known then table.sort(scopes, precedes) end
  end
  if prefix == '' and with_output(run, node, '', upto) then table.insert(scopes, 1, '') end
  for _, scope in ipairs(scopes) do
    local token = with_output(run, node, scope, upto)
    if token then
      local name = token[T_OUTCOME] == 'failed' and FAILED .. node or node
      add_output(found, run, name, scope, token[T_EVENT])
    end
  end
end

-- What a token reads; nil when that cannot be read.
local function reads_of(token)
  local sound, reads = pcall(unpack_row, token[T_READS])
  if not sound or type(reads) ~= 'table' then return nil end
  for _, read in ipairs(reads) do
    if type(read) ~= 'table' or type(read[READ_NODE]) ~= 'string'
      or type(read[READ_PREFIX]) ~= 'string' or type(read[READ_UPTO] or 0) ~= 'number' or read[READ_NODE] == ''
    then
      return nil
    end
  end
  return reads
end

-- The outputs that a token needs; nil when that cannot be read.
local function outputs_of(run, token)
  local inputs, reads = {}, {}
  if not token[T_SKIP] then
    if token[T_SOURCE] ~= '' then
      add_output(inputs, run, token[T_SOURCE], token[T_SOURCE_SCOPE] or '', token[T_SOURCE_EVENT])
    elseif token[T_JOINED] then
      add_arrived(inputs, run, token)
    end
  end
  if token[T_READS] then
    local wanted = reads_of(token)
    if not wanted then return nil end
    for _, read in ipairs(wanted) do
      if read[READ_EVERY] then
        add_every(reads, run, read[READ_NODE], read[READ_PREFIX], read[READ_UPTO])
      else
        local latest = latest_of(run, read[READ_NODE], read[READ_PREFIX], read[READ_UPTO])
        if latest then add_output(reads, run, read[READ_NODE], latest[T_SCOPE], latest[T_EVENT]) end
      end
    end
  end
  return inputs, reads
end

local function sent_of(run)
  if not run[R_SENT] then run[R_SENT] = {} end
  return run[R_SENT]
end

-- The same as `fit` for a token that needs one output at most, as most do: nothing is made that it
-- could do without.
local function fit_one(token, is_first)
  if token[T_SKIP] or token[T_SOURCE] == '' then return true end
  local run, event = token[T_RUN], token[T_SOURCE_EVENT]
  if event == 0 then
    local source = load_token(run[R_NAME], token[T_SOURCE], token[T_SOURCE_SCOPE] or '')
    event = source and source[T_EVENT] or 0
    if event == 0 then return true end
  end
  local known = run[R_SENT]
  if not (known and known[event]) then
    local data, size = load_output(run, event)
    if size > bytes_left and not is_first then return false end
    bytes_left = bytes_left - size
    if known then known[event] = data else run[R_SENT] = { [event] = data } end
  end
  token[T_FIT] = event
  return true
end

-- Whether the outputs of a token fit into the answer; they have got their place there then. The first
-- token always fits: what is too large even for that comes without its outputs.
function fit(token, is_first)
  if not (token[T_READS] or token[T_JOINED] or token[T_CURSOR]) then
    return fit_one(token, is_first)
  end
  local run, own = token[T_RUN], (token[T_CURSOR] or 0) ~= 0
  local inputs, reads = outputs_of(run, token)
  if not inputs then
    token[T_FIT] = { {}, {}, DAMAGED, false }
    return true
  end
  local known, few = sent_of(run), #inputs + #reads <= 3 * UNSIZED
  local total, new, found, sizes = 0, 0, {}, {}
  for _, list in ipairs({ inputs, reads }) do
    for i = 3, #list, 3 do
      local event = list[i]
      local size = sizes[event]
      if not size then
        if known[event] or not few then
          size = size_of(run, event)
        else
          found[event], size = load_output(run, event)
        end
        sizes[event] = size
        if not known[event] then
          found[event] = found[event] or true
          new = new + size
        end
      end
      total = total + size
    end
  end
  local oversize = 0
  if total > INPUT_BYTES_MAX then
    oversize, new, inputs, reads, found = total, 0, {}, {}, {}
  end
  if new > bytes_left and not is_first then return false end
  bytes_left = bytes_left - new
  for event, data in pairs(found) do known[event] = data end
  -- Its own output is only there while a fan-out goes on, and does not count.
  if own then add_output(reads, run, token[T_NODE], token[T_SCOPE], token[T_EVENT]) end
  token[T_FIT] = { inputs, reads, oversize, own }
  return true
end

-- The data of an output that is in the answer; if it was written before, the number of the output.
local function tell(run, event)
  local known = run[R_SENT]
  local data = known[event]
  if type(data) == 'number' then return data end
  sent_count = sent_count + 1
  known[event] = sent_count
  if data == true then data = load_output(run, event) end
  return data
end

-- Add outputs to an answer: node, scope, event and data of each.
local function add_outputs(answer, run, list, own)
  local at = #answer
  for i = 1, #list, 3 do
    local event, data = list[i + 2], nil
    if own and i + 3 > #list then
      data, sent_count = load_output(run, event), sent_count + 1
    else
      data = tell(run, event)
    end
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] =
      list[i], list[i + 1], event, data
    at = at + 4
  end
  return #list / 3
end

-- Add the fourteen values of a token that fits to an answer, followed by four for each output. Beside
-- whether it is a skip: the events with what somebody has set, if there are any.
function grant(answer, token)
  local run, at, found = token[T_RUN], #answer, token[T_FIT]
  answer[at + 1], answer[at + 2], answer[at + 3] = run[R_NAME], token[T_NODE], token[T_SCOPE]
  answer[at + 4], answer[at + 5] = token[T_SKIP] and 1 or 0, token[T_ATTEMPT]
  if token[T_GIVEN] or token[T_EDITED] then
    answer[at + 4] = { answer[at + 4], token[T_GIVEN] or 0, token[T_EDITED] or 0 }
  end
  answer[at + 6], answer[at + 7] = token[T_EXPIRY] or 0, token[T_DELIVERY]
  answer[at + 8], answer[at + 9] = token[T_HOP], token[T_CURSOR] or 0
  answer[at + 10], answer[at + 11] = token[T_RESOLUTION] or false, token[T_SLOT] or ''
  answer[at + 12], answer[at + 13], answer[at + 14] = 0, 0, 0
  if type(found) == 'number' then
    answer[at + 12], answer[at + 15] = 1, token[T_SOURCE]
    answer[at + 16], answer[at + 17] = token[T_SOURCE_SCOPE] or '', found
    answer[at + 18] = tell(run, found)
  elseif found then
    answer[at + 14] = found[3]
    answer[at + 12] = add_outputs(answer, run, found[1])
    answer[at + 13] = add_outputs(answer, run, found[2], found[4])
  end
end

-- Add the seven values of a run to an answer.
function add_header(answer, run)
  load_origin(run)
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = run[R_NAME], run[R_PLAN], run[R_GENERATION]
  answer[at + 4], answer[at + 5] = run[R_DEADLINE_MS] or false, run[R_COLD]
  answer[at + 6], answer[at + 7] = run[R_INPUT], run[R_OUTPUT_BYTES] or 0
end

end
