-- Events as JSON, byte for byte as `events.encode_event` writes them: fields in their order, those
-- with their default left out. Fragments of JSON come ready from the caller. The same names and
-- numbers come again in most events of a call, so what they look like is kept.

local ESCAPES = {
  ['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n', ['\r'] = '\\r',
  ['\t'] = '\\t',
}

local function escape(char) return ESCAPES[char] or format('\\u%04x', char:byte()) end

local quoted, numbers, event_fields

local function begin_events()
  quoted, numbers, event_fields = {}, {}, {}
end

local function quote(text)
  local known = quoted[text]
  if not known then
    known = text
    -- Looking for control characters by their class is quicker, and finds one too many.
    if find(text, '[%c"\\]') then known = text:gsub('[%z\1-\31"\\]', escape) end
    known = '"' .. known .. '"'
    quoted[text] = known
  end
  return known
end

local function number(name, value, default)
  if value == nil or value == default then return '' end
  local known = numbers[name]
  if not known then
    known = {}
    numbers[name] = known
  end
  local text = known[value]
  if not text then
    text = format(',"%s":%.0f', name, value)
    known[value] = text
  end
  return text
end

local function text(name, value)
  if value == nil or value == '' then return '' end
  return ',"' .. name .. '":' .. quote(value)
end

local function json(name, value)
  if value == nil then return '' end
  return ',"' .. name .. '":' .. value
end

local function list(name, values)
  if not values or #values == 0 then return '' end
  return ',"' .. name .. '":[' .. concat(values, ',') .. ']'
end

local function place(node, scope) return '[' .. quote(node) .. ',' .. quote(scope) .. ']' end

-- The beginning of every event about a node instance.
local function about(kind, token)
  return '{"type":"' .. kind .. '","node":' .. quote(token[T_NODE]) .. ',"scope":'
    .. quote(token[T_SCOPE])
end

--: What `taken_by` said last, and about which lease.
local last_lease, last_session, last_taken_ms, last_words

-- Under which lease it happened.
local function taken_by(token)
  local lease, session, taken_ms = token[T_LEASE], token[T_SESSION], token[T_TAKEN_MS]
  if lease ~= last_lease or session ~= last_session or taken_ms ~= last_taken_ms then
    last_lease, last_session, last_taken_ms = lease, session, taken_ms
    last_words = text('lease', lease) .. text('session', session) .. number('taken_ms', taken_ms, 0)
  end
  return last_words
end

-- The record of an event: when it was, where in the record the output stands (0 0: it has none),
-- and the event.
local HEAD, HEAD_BYTES = '>dI4I4', 16
local COMPLETED, SCOPE, OUTPUT = '{"type":"node.completed","node":', ',"scope":', ',"output":'

local function event_field(seq)
  local field = event_fields[seq]
  if not field then
    field = 'e' .. format('%d', seq)
    event_fields[seq] = field
  end
  return field
end

local function output_of(record)
  -- A damaged record: nobody can take this for an output.
  if #record < HEAD_BYTES then return '' end
  local first, last = struct_unpack('>I4I4', record, 9)
  return first == 0 and 'null' or sub(record, first, last)
end
