-- Dead letters: a run fails at one node in each generation, so it has at most one in each. Others are
-- of compensators and of tokens that were held: one for each instance in each generation.

-- The name of a dead letter in sorted sets.
local function letter_member(name, node, scope, generation)
  return name .. '\0' .. node .. '\0' .. scope .. format('\0%08d', generation)
end

-- Whether a node is one of those that undo, or lists what to undo.
function undo.is_part(node) return sub(node, -#L_UNDO) == L_UNDO end

-- The field of a dead letter that need not be the only one of its generation.
function repairs.letter_field(node, scope, generation)
  return F_DEAD_LETTER .. generation .. '\0' .. node .. '\0' .. scope
end

-- The row of a dead letter, or nil; and its field.
function repairs.find_letter(key, node, scope, generation)
  local own, only = repairs.letter_field(node, scope, generation), F_DEAD_LETTER .. generation
  local found = call('HMGET', key, own, only)
  if found[1] then return found[1], own end
  return found[2], only
end

-- The fields of all dead letters that a run may have.
function undo.letter_fields(run)
  return (run[R_DEAD_LETTERS] or 0) > 0 and fields_of(run, F_DEAD_LETTER) or {}
end

-- Keep the token of a node that has failed for good.
local function keep_letter(run, token, reason, error, fingerprint, held)
  local tenant, generation = run[R_TENANT], run[R_GENERATION]
  local node, scope = token[T_NODE], token[T_SCOPE]
  run[R_DEAD_LETTERS] = (run[R_DEAD_LETTERS] or 0) + 1
  local field, member = repairs.letter_field(node, scope, generation),
    letter_member(run[R_NAME], node, scope, generation)
  local known = call('HGET', run[R_KEY], field)
  if known then leave(dead_key(tenant, ({ unpack_row(known) })[D_STATUS]), member) end
  if not (held or known or undo.is_part(node)) then field = F_DEAD_LETTER .. generation end
  put(run, field, pack_dead_letter{ node = node, scope = scope, generation = generation,
    tenant = tenant, queue = token[T_QUEUE], reason = reason, error = error,
    fingerprint = fingerprint, attempts = token[T_ATTEMPT], at_ms = now,
    workflow = run[R_WORKFLOW], held = held or nil })
  enter(dead_key(tenant, 'pending'), member, now)
end

-- The pending dead letters of a run.
local function pending_letters(run)
  local found, fields = {}, undo.letter_fields(run)
  for i, data in ipairs(get_fields(run[R_KEY], fields)) do
    local letter = data and { unpack_row(data) }
    if letter and letter[D_STATUS] == 'pending' then
      letter.field = fields[i]
      found[#found + 1] = letter
    end
  end
  return found
end

-- The pending dead letter of a token that is held, or nil.
function repairs.held_letter(run, token)
  local data, field =
    repairs.find_letter(run[R_KEY], token[T_NODE], token[T_SCOPE], run[R_GENERATION])
  local letter = data and { unpack_row(data) }
  if not letter or letter[D_STATUS] ~= 'pending' then return nil end
  letter.field = field
  return letter
end

-- Give a pending dead letter of a run another status.
local function move_letter(run, letter, status, why)
  letter[D_STATUS], letter[D_SETTLED_MS], letter[D_WHY] = status, now, why
  put(run, letter.field, pack(unpack(letter, 1, D_LAST)))
  local tenant = run[R_TENANT]
  local member = letter_member(run[R_NAME], letter[D_NODE], letter[D_SCOPE], letter[D_GENERATION])
  leave(dead_key(tenant, 'pending'), member)
  enter(dead_key(tenant, status), member, letter[D_AT_MS])
end
