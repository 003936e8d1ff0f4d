-- Events as JSON, byte for byte as `events.encode_event` writes them: fields in their order, those
-- with their default left out. Fragments of JSON come ready from the caller.

local ESCAPES = {
  ['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n', ['\r'] = '\\r',
  ['\t'] = '\\t',
}

local function escape(char) return ESCAPES[char] or format('\\u%04x', char:byte()) end

local function quote(text)
  if find(text, '[%z\1-\31"\\]') then text = text:gsub('[%z\1-\31"\\]', escape) end
  return '"' .. text .. '"'
end

-- The same numbers come again in most events of a call: times, hops, counters.
local digits = {}

local function in_digits(value)
  local known = digits[value]
  if not known then
    known = format('%.0f', value)
    digits[value] = known
  end
  return known
end

local function number(name, value, default)
  if value == nil or value == default then return '' end
  return ',"' .. name .. '":' .. in_digits(value)
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
  if #values == 0 then return '' end
  return ',"' .. name .. '":[' .. concat(values, ',') .. ']'
end

local function place(node, scope) return '[' .. quote(node) .. ',' .. quote(scope) .. ']' end

-- The beginning of every event about a node instance.
local function about(kind, token)
  return '{"type":"' .. kind .. '","node":' .. quote(token.node) .. ',"scope":' .. quote(token.scope)
end

-- Under which lease it happened.
local function taken_by(token)
  return text('lease', token.lease) .. text('session', token.session)
    .. number('taken_ms', token.taken_ms, 0)
end
