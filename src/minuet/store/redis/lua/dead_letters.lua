-- Dead letters: a run fails at one node in each generation, so it has at most one in each.

-- The name of a dead letter in sorted sets.
local function letter_member(name, node, scope, generation)
  return name .. '\0' .. node .. '\0' .. scope .. format('\0%08d', generation)
end

-- Keep the token of a node that has failed for good.
local function keep_letter(run, token, reason, error, fingerprint)
  local tenant, generation = run[R_TENANT], run[R_GENERATION]
  run[R_DEAD_LETTERS] = (run[R_DEAD_LETTERS] or 0) + 1
  put(run, F_DEAD_LETTER .. generation, pack_dead_letter{ node = token[T_NODE],
    scope = token[T_SCOPE], generation = generation, tenant = tenant, queue = token[T_QUEUE],
    reason = reason, error = error, fingerprint = fingerprint, attempts = token[T_ATTEMPT],
    at_ms = now, workflow = run[R_WORKFLOW] })
  local member = letter_member(run[R_NAME], token[T_NODE], token[T_SCOPE], generation)
  enter(dead_key(tenant, 'pending'), member, now)
end

-- The pending dead letter of a run, or nil.
local function pending_letter(run)
  local data = call('HGET', run[R_KEY], F_DEAD_LETTER .. run[R_GENERATION])
  local letter = data and { unpack_row(data) }
  return letter and letter[D_STATUS] == 'pending' and letter or nil
end

-- Give the pending dead letter of a run another status.
local function move_letter(run, letter, status, why)
  letter[D_STATUS], letter[D_SETTLED_MS], letter[D_WHY] = status, now, why
  put(run, F_DEAD_LETTER .. letter[D_GENERATION], pack(unpack(letter, 1, D_LAST)))
  local tenant = run[R_TENANT]
  local member = letter_member(run[R_NAME], letter[D_NODE], letter[D_SCOPE], letter[D_GENERATION])
  leave(dead_key(tenant, 'pending'), member)
  enter(dead_key(tenant, status), member, letter[D_AT_MS])
end
