-- sweep: expire leases, fire timers, pass deadlines, at most `limit` of each; remove runs that
-- ended before `retention_ms`, at most `portion`.
-- request: now_ms or nil, limit, the resolution of a timeout, retention_ms or nil, portion.
-- Result: {expired, resumed, cancelled, next due or false, whether there is more, … work,
--   idempotency keys that are free again}.

local given, limit, timed_out, retention_ms, portion = unpack(unpack_row(request), 1, 5)
now = clock(given)

local function due(key, from, to, count)
  if count <= 0 then return {} end
  return call('ZRANGEBYSCORE', key, from, to, 'LIMIT', 0, count)
end

local late = due(LEASES, '-inf', now, limit)
-- Granted by a clock that has since been set back.
for _, member in ipairs(due(LEASES, '(' .. format('%.0f', now + LEASE_MS_MAX), '+inf', limit - #late))
do
  late[#late + 1] = member
end
local timers, overdue = due(KEY.timers, '-inf', now, limit), due(KEY.deadlines, '-inf', now, limit)
local old = retention_ms and due(ENDED, '-inf', now - retention_ms, portion) or {}

local expired, resumed, cancelled = 0, 0, 0
for _, member in ipairs(late) do
  if not load_token(parts(member)) then
    leave(LEASES, member) -- Its row is gone, or cannot be read.
  elseif expire(parts(member)) then
    expired = expired + 1
  end
end
for _, member in ipairs(timers) do
  local run_id, node, scope = parts(member)
  local token, run = load_token(run_id, node, scope)
  if not token then
    leave(KEY.timers, member)
  elseif resume(run[R_TENANT], run_id, node, scope, timed_out, '', nil, true) then
    resumed = resumed + 1
  end
end
for _, run in ipairs(overdue) do
  if not load_run(run) then
    leave(KEY.deadlines, run)
  elseif pass_deadline(run) then
    cancelled = cancelled + 1
  end
end
for _, name in ipairs(old) do
  local run = load_run(name)
  if not (run and TERMINAL[run[R_STATUS]]) then
    leave(ENDED, name)
  elseif not is_deletable(run) then
    enter(ENDED, name, now) -- Later: meanwhile, others have their turn.
  elseif not (logged and call('ZSCORE', KEY.unlogged, name)) then
    remove_run(run)
  end
end
local work = commit()
local released = remove_doomed()

local next_due
local function consider(found)
  local score = tonumber(found[2])
  if score and (not next_due or score < next_due) then next_due = score end
end
for _, key in ipairs({ LEASES, KEY.timers, KEY.deadlines }) do
  consider(call('ZRANGE', key, 0, 0, 'WITHSCORES'))
end
for _, queue in ipairs(call('HKEYS', QUEUES)) do
  consider(call('ZRANGEBYSCORE', READY .. queue, '(' .. format('%.0f', now), '+inf',
    'WITHSCORES', 'LIMIT', 0, 1))
end
local more = #late == limit or #timers == limit or #overdue == limit or (#old > 0 and #old == portion)
return { expired, resumed, cancelled, next_due or false, more and 1 or 0, work, released }
