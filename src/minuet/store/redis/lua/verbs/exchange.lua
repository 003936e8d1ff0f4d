-- exchange: hand in, renew and take, in this order, in one step.
-- request: the values of the call (`messages.py`), and then those of the items.
-- `strict`: false: the session's partition is another one; here numbers need only grow.
-- Result: {'session', last seq} for a call out of turn, else
--   {'reply', now_ms, results, revoked, granted, runs, whether there is work for others,
--    how many were taken by each take, when they were taken, runs that have ended, runs whose
--    relatives have to learn of it}. Results are one byte each (`RESULT_CODES` in `columns.py`).

local EXCHANGE
offset, EXCHANGE = unpack_limit(data, EXCHANGE_VALUES, 0)
local tenant, session, seq, lease = exchange.tenant, exchange.session, exchange.seq, exchange.lease
now = clock(exchange.now_ms)
begin_leases(exchange.lease_ms, exchange.lease_ms_by_queue)

local last = call('HGET', session_key(session), tenant)
local last_seq, last_lease, kept_ms, _ = 0, '', now, nil
local results, revoked, members, counts
-- The rest is only needed when a call is repeated.
if last then _, last_seq, last_lease, kept_ms = unpack_limit(last, 3, 0) end
if type(kept_ms) ~= 'number' then
  -- Kept by an earlier version, with the time at the end.
  _, _, results, revoked, members, counts, kept_ms = unpack_row(last)
  last = pack(last_seq, last_lease, kept_ms, results, revoked, members, counts)
end

local function reply(taken, taken_ms)
  local granted, headers, listed = {}, {}, {}
  for i = 1, #taken do
    local token = taken[i]
    local run = token[T_RUN]
    grant(granted, token)
    if not listed[run] then
      listed[run] = true
      add_header(headers, run)
    end
  end
  for name in pairs(replanned) do
    local run = load_run(name)
    if run and not listed[run] then add_header(headers, run) end
  end
  return { 'reply', now, results, revoked, granted, headers, 0, counts, taken_ms, ended,
    unreported }
end

if seq == last_seq and lease == last_lease then
  _, _, _, results, revoked, members, counts = unpack_row(last)
  local taken, taken_ms, wanted = {}, now, {}
  for _, member in ipairs(members) do
    local token = load_token(parts(member))
    if token and token[T_STATE] == 'leased' and token[T_LEASE] == lease then
      taken[#taken + 1] = token
      taken_ms = token[T_TAKEN_MS]
    end
  end
  table.sort(taken, function(a, b) return precedes(a[T_MEMBER], b[T_MEMBER]) end)
  -- All of it has fitted before.
  for _, token in ipairs(taken) do fit(token, true) end
  for i = 1, #results do
    local code = sub(results, i, i)
    wanted[i] = code == CODES.replan or code == CODES.full
  end
  replanned = runs_of(wanted, exchange.hand_in)
  return reply(taken, taken_ms)
end
if seq <= last_seq or (exchange.strict and seq ~= last_seq + 1) then return { 'session', last_seq } end

local codes = {}
revoked, members, counts = {}, {}, {}
for i = 1, exchange.hand_in do codes[i] = CODES[hand_in(tenant)] end
results = concat(codes)
for _, one in ipairs(exchange.renew or {}) do
  if not renew(tenant, one) then revoked[#revoked + 1] = one end
end
-- Before taking, because it decides who is ready.
promote_waiters()
local taken, fitting = {}, true
local only = run_filter(exchange.runs)
for i, one in ipairs(exchange.take) do
  local before = #taken
  fitting = fitting
    and take(tenant, session, lease, standing(one[TAKE_QUEUES]), one[TAKE_LIMIT], only, taken)
  counts[i] = #taken - before
end
for i = 1, #taken do members[i] = taken[i][T_MEMBER] end

local answer = reply(taken, now)
answer[7] = commit()
-- How long it is kept need not be said each time.
local says_so = not last or now < kept_ms or now - kept_ms > exchange.session_ms / 24
if says_so then kept_ms = now end
call('HSET', session_key(session), tenant,
  pack(seq, lease, kept_ms, results, revoked, members, counts))
if says_so then call('PEXPIRE', session_key(session), exchange.session_ms) end
return answer
