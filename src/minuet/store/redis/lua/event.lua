-- All JSON that scripts write: the events of `events.py`, byte for byte as `events.encode_event`
-- writes them: fields in their order, those with their default left out. Fragments of JSON come ready
-- from the caller. Most events have the same names and numbers, so their text is kept from call to call.

--: By type, with `_` in place of the dot: how an event is written.
local events = {}

--: How many bytes come before an event in its record.
local HEAD_BYTES = 16

-- Exports. Everything else stays local to this block.
local begin_events, place, issued_fragment, record_of, signal_record, completed_record
local digits, event_field, output_of, reason_error

do

local ESCAPES = {
  ['"'] = '\\"', ['\\'] = '\\\\', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n', ['\r'] = '\\r',
  ['\t'] = '\\t',
}

local function escape(char) return ESCAPES[char] or format('\\u%04x', char:byte()) end

--: Texts that are kept, and how many they are. At so many, all are forgotten; long ones are not kept.
local KEPT_MAX, KEPT_BYTES_MAX = 2000, 1000
local quoted, numbers, numerals, event_fields, sent_alone
local kept = KEPT_MAX

function begin_events()
  if kept < KEPT_MAX then return end
  quoted, numbers, numerals, event_fields, sent_alone, kept = {}, {}, {}, {}, {}, 0
end

local function keep(texts, of, text)
  if #text <= KEPT_BYTES_MAX then texts[of], kept = text, kept + 1 end
end

local function quote(text)
  local known = quoted[text]
  if not known then
    known = text
    -- Searching control characters by their class is faster, and finds one too many.
    if find(text, '[%c"\\]') then known = text:gsub('[%z\1-\31"\\]', escape) end
    known = '"' .. known .. '"'
    keep(quoted, text, known)
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
    keep(known, value, text)
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
  if not values or not values[1] then return '' end
  return ',"' .. name .. '":[' .. (values[2] and concat(values, ',') or values[1]) .. ']'
end

-- What a node has sent. Most send one thing, and the same one in many runs.
local function sent(to)
  local only = to[1]
  if not only or to[2] then return list('to', to) end
  local known = sent_alone[only]
  if not known then
    known = list('to', to)
    keep(sent_alone, only, known)
  end
  return known
end

function place(node, scope) return '[' .. quote(node) .. ',' .. quote(scope) .. ']' end

-- That the next item was made ready, as `deliver_all` says it. 3: live, and counted.
function issued_fragment(node, scope) return '[' .. quote(node) .. ',' .. quote(scope) .. ',3,1,1]' end

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

-- The record of an event: when it was, where in the record the output is (0 0: it has none),
-- and the event.
local HEAD = '>dI4I4'

function record_of(event) return struct_pack(HEAD, now, 0, 0) .. event end

-- The record of a signal: its data is found like an output.
function signal_record(name, id, payload, by)
  local event, before = events.signal_received(name, id, payload, by)
  local first = HEAD_BYTES + before + 1
  return struct_pack(HEAD, now, first, first + #payload - 1) .. event
end

function digits(value)
  local known = numerals[value]
  if not known then
    known = format('%d', value)
    keep(numerals, value, known)
  end
  return known
end

function event_field(seq)
  local field = event_fields[seq]
  if not field then
    field = F_EVENT .. digits(seq)
    keep(event_fields, seq, field)
  end
  return field
end

function output_of(record)
  -- A damaged record: this cannot be mistaken for an output.
  if #record < HEAD_BYTES then return '' end
  local first, last = struct_unpack('>I4I4', record, 9)
  return first == 0 and 'null' or sub(record, first, last)
end

-- The record of a `node.completed`. In one go, because every string that is made on the way costs time
-- for each of its bytes. The output begins after `lead` bytes of white space and has `size` bytes.
local COMPLETED, SCOPE, OUTPUT = '{"type":"node.completed","node":', ',"scope":', ',"output":'
local MORE = ',"more":true'

function completed_record(
  token, counter, output, lead, size, to, error, notes, withdrawn, more, dead_letter, bytes
)
  local node, scope = quote(token[T_NODE]), quote(token[T_SCOPE])
  local before = HEAD_BYTES + #COMPLETED + #node + #SCOPE + #scope + #OUTPUT + lead
  local rest = '}'
  if error or notes or withdrawn or more or bytes > 0 then
    rest = json('error', error) .. json('notes', notes) .. list('withdrawn', withdrawn)
      .. (more and MORE or '') .. text('dead_letter', dead_letter)
      .. number('output_bytes', bytes, 0) .. '}'
  end
  return struct_pack(HEAD, now, before + 1, before + size)
    .. COMPLETED .. node .. SCOPE .. scope .. OUTPUT .. output .. sent(to)
    .. number('counter', counter, 0) .. number('attempt', token[T_ATTEMPT], 1)
    .. number('hop', token[T_HOP], 0) .. taken_by(token) .. rest
end

function events.node_sent(token, counter, to, withdrawn, more)
  return about('node.sent', token) .. sent(to) .. number('counter', counter, 0)
    .. list('withdrawn', withdrawn) .. (more and MORE or '') .. '}'
end

function events.node_skipped(token, counter, to, withdrawn)
  return about('node.skipped', token) .. sent(to) .. number('counter', counter, 0)
    .. number('hop', token[T_HOP], 0) .. list('withdrawn', withdrawn) .. '}'
end

function events.node_retried(token, error, due_ms)
  return about('node.retried', token) .. number('attempt', token[T_ATTEMPT])
    .. json('error', error) .. number('due_ms', due_ms) .. taken_by(token) .. '}'
end

-- `by_hand`: somebody let it fail, and no worker did.
function events.node_failed(token, counter, error, dead_letter, by_hand)
  local reason = dead_letter and ',"dead_letter":' .. quote(dead_letter) or ''
  return about('node.failed', token) .. number('attempt', token[T_ATTEMPT])
    .. json('error', error) .. number('counter', counter, 0) .. reason
    .. (by_hand and '' or taken_by(token)) .. '}'
end

function events.node_held(token, error, dead_letter)
  return about('node.held', token) .. number('attempt', token[T_ATTEMPT]) .. json('error', error)
    .. text('dead_letter', dead_letter) .. taken_by(token) .. '}'
end

function events.node_edited(token, config, by, why)
  return about('node.edited', token) .. json('config', config) .. text('by', by)
    .. text('why', why) .. '}'
end

function events.node_repaired(token, action, value, by, why, is_taken)
  return about('node.repaired', token) .. ',"action":' .. quote(action) .. json('value', value)
    .. text('by', by) .. text('why', why) .. (is_taken and taken_by(token) or '') .. '}'
end

function events.node_waiting(token, payload)
  return about('node.waiting', token) .. ',"kind":' .. quote(token[T_WAIT])
    .. text('key', token[T_WAIT_KEY]) .. number('due_ms', token[T_DUE_MS]) .. json('data', payload)
    .. taken_by(token) .. '}'
end

function events.node_resumed(token, resolution, by, timed_out, signal)
  return about('node.resumed', token) .. json('resolution', resolution) .. text('by', by)
    .. (timed_out and ',"timed_out":true' or '') .. number('signal', signal) .. '}'
end

-- Also how many bytes come before the data.
function events.signal_received(name, id, payload, by)
  local before = '{"type":"signal.received","name":' .. quote(name) .. ',"id":' .. quote(id)
    .. ',"data":'
  return before .. payload .. text('by', by) .. '}', #before
end

function events.step_recorded(token, name, value, signal)
  return about('step.recorded', token) .. ',"name":' .. quote(name) .. json('value', value)
    .. number('signal', signal, 0) .. '}'
end

function events.lease_expired(token)
  return about('lease.expired', token) .. number('expiry', token[T_EXPIRY])
    .. text('session', token[T_SESSION]) .. text('lease', token[T_LEASE]) .. '}'
end

function events.lease_returned(token, lease, late)
  return about('lease.returned', token) .. number('expiry', token[T_EXPIRY] or 0)
    .. ',"lease":' .. quote(lease) .. (late and ',"late":true' or '') .. '}'
end

--: Tags of a run that has none.
local NOTHING = '{}'

function events.run_created(
  workflow, plan, input, tags, parent, version, tag, node, scope, depth, of, undo_on
)
  return '{"type":"run.created","workflow":' .. quote(workflow) .. ',"plan":' .. quote(plan)
    .. json('input', input) .. (tags ~= NOTHING and json('tags', tags) or '')
    .. (parent and ',"parent":' .. quote(parent) or '') .. number('version', version)
    .. (tag and ',"tag":' .. quote(tag) or '') .. text('parent_node', node)
    .. text('parent_scope', scope) .. number('depth', depth) .. number('parent_number', of)
    .. text('undo_on', undo_on) .. '}'
end

function events.run_started(run, to, input)
  return '{"type":"run.started","to":[' .. concat(to, ',') .. ']'
    .. number('counter', run[R_COUNTER], 0) .. number('deadline_ms', run[R_DEADLINE_MS])
    .. json('input', input) .. '}'
end

function events.run_paused(by) return '{"type":"run.paused"' .. text('by', by) .. '}' end

function events.run_resumed(by) return '{"type":"run.resumed"' .. text('by', by) .. '}' end

function events.run_stalled(since_ms, why)
  return '{"type":"run.stalled"' .. number('since_ms', since_ms) .. text('why', why) .. '}'
end

-- `to`: {{source, what it sent}, …}
function events.run_patched(run, to, by, withdrawn)
  local sent = {}
  for i, one in ipairs(to) do sent[i] = '[' .. quote(one[1]) .. ',' .. one[2] .. ']' end
  return '{"type":"run.patched","plan":' .. quote(run[R_PLAN]) .. list('to', sent)
    .. number('counter', run[R_COUNTER], 0) .. text('by', by) .. list('withdrawn', withdrawn) .. '}'
end

function events.run_retried(run, places, by)
  return '{"type":"run.retried"' .. number('generation', run[R_GENERATION])
    .. list('tokens', places) .. number('counter', run[R_COUNTER], 0) .. text('by', by)
    .. number('deadline_ms', run[R_DEADLINE_MS]) .. '}'
end

function events.run_completed() return '{"type":"run.completed"}' end

function events.run_failed(token, error)
  return about('run.failed', token) .. json('error', error) .. '}'
end

function events.run_cancelled(reason, by)
  return '{"type":"run.cancelled"' .. text('reason', reason) .. text('by', by) .. '}'
end

-- `scope` is that of the node that lists what to undo.
function events.run_compensating(run, scope, by, back_to)
  return '{"type":"run.compensating","to":[[' .. quote(L_UNDO) .. ',' .. quote(scope) .. ',1,0,0]]'
    .. number('counter', run[R_COUNTER], 0) .. text('by', by) .. text('back_to', back_to) .. '}'
end

function events.run_compensated(status)
  return '{"type":"run.compensated","status":' .. quote(status) .. '}'
end

-- The error of a run that was ended from outside.
function reason_error(reason)
  return '{"code":' .. quote(reason) .. ',"message":' .. quote(reason) .. '}'
end

end

--: What stands for the error of a run whose row cannot be read: see `store/lenient.py`.
local UNREADABLE_ERROR =
  '{"code":"unreadable","message":"not readable in the store: the row of the run"}'
