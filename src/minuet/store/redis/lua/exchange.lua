-- exchange: hand in, renew and take, in this order, in one step.
-- ARGV[1]: now_ms or nil, tenant, session, seq, lease, lease_ms, hand_in, renew, take, session_ms,
-- strict (false: the session's partition is another one; here numbers need only grow).
-- Result: {'session', last seq} for a call out of turn, else
--   {'reply', now_ms, results, revoked, granted, runs, whether there is work for others,
--    how many were taken by each take}.

local given, tenant, session, seq, lease, lease_ms, items, held, takes, session_ms, strict =
  unpack(unpack_row(ARGV[1]), 1, 11)
now = clock(given)

local last = call('HGET', session_key(session), tenant)
local last_seq, last_lease, results, revoked, members, counts = 0, '', {}, {}, {}, {}
if last then
  last_seq, last_lease, results, revoked, members, counts = unpack_row(last)
end

local function reply(taken, counts)
  local granted, headers, wanted = {}, {}, {}
  for i, token in ipairs(taken) do
    granted[i] = grant(token)
    wanted[token.run] = true
  end
  for i, result in ipairs(results) do
    if result == 'replan' and items[i] and load_run(items[i][2]) then wanted[items[i][2]] = true end
  end
  for run in pairs(wanted) do headers[#headers + 1] = run_reply(runs[run]) end
  return { 'reply', now, results, revoked, granted, headers, 0, counts }
end

if seq == last_seq and lease == last_lease then
  local taken = {}
  for _, member in ipairs(members) do
    local token = load_token(parts(member))
    if token and token.state == 'leased' and token.lease == lease then
      taken[#taken + 1] = token
    end
  end
  table.sort(taken, function(a, b) return precedes(a.member, b.member) end)
  return reply(taken, counts)
end
if seq <= last_seq or (strict and seq ~= last_seq + 1) then return { 'session', last_seq } end

local until_ms = now + lease_ms
results, revoked, members, counts = {}, {}, {}, {}
for i, item in ipairs(items) do results[i] = hand_in(tenant, item) end
for _, one in ipairs(held) do
  if not renew(tenant, one, until_ms) then revoked[#revoked + 1] = one end
end
-- Before taking, because it decides who is ready.
promote_waiters()
local taken = {}
local request = { tenant = tenant, session = session, lease = lease }
for i, one in ipairs(takes) do
  local before = #taken
  take(request, one[1], one[2], until_ms, taken)
  counts[i] = #taken - before
end
for i, token in ipairs(taken) do members[i] = token.member end

local answer = reply(taken, counts)
answer[7] = commit()
call('HSET', session_key(session), tenant, pack(seq, lease, results, revoked, members, counts))
call('PEXPIRE', session_key(session), session_ms)
return answer
