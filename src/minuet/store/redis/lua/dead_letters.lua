-- Dead letters: a run fails at one node in each generation, so it has at most one in each. Others are
-- of compensators: one for each instance in each generation.

-- The name of a dead letter in sorted sets.
local function letter_member(name, node, scope, generation)
  return name .. '\0' .. node .. '\0' .. scope .. format('\0%08d', generation)
end

-- Whether a node is one of those that undo, or lists what to undo.
function undo.is_part(node) return sub(node, -#L_UNDO) == L_UNDO end

-- The field of a dead letter.
function undo.letter_field(node, scope, generation)
  local field = F_DEAD_LETTER .. generation
  if undo.is_part(node) then return field .. '\0' .. node .. '\0' .. scope end
  return field
end

-- The fields of all dead letters that a run may have.
function undo.letter_fields(run)
  if run[R_UNDOS] then return fields_of(run, F_DEAD_LETTER) end
  local fields = {}
  for generation = 1, run[R_GENERATION] do fields[generation] = F_DEAD_LETTER .. generation end
  return fields
end

-- Keep the token of a node that has failed for good.
local function keep_letter(run, token, reason, error, fingerprint)
  local tenant, generation = run[R_TENANT], run[R_GENERATION]
  local node, scope = token[T_NODE], token[T_SCOPE]
  run[R_DEAD_LETTERS] = (run[R_DEAD_LETTERS] or 0) + 1
  put(run, undo.letter_field(node, scope, generation), pack_dead_letter{ node = node, scope = scope,
    generation = generation, tenant = tenant, queue = token[T_QUEUE], reason = reason,
    error = error, fingerprint = fingerprint, attempts = token[T_ATTEMPT], at_ms = now,
    workflow = run[R_WORKFLOW] })
  enter(dead_key(tenant, 'pending'), letter_member(run[R_NAME], node, scope, generation), now)
end

-- The pending dead letters of a run.
local function pending_letters(run)
  local found = {}
  for _, data in pairs(get_fields(run[R_KEY], undo.letter_fields(run))) do
    local letter = data and { unpack_row(data) }
    if letter and letter[D_STATUS] == 'pending' then found[#found + 1] = letter end
  end
  return found
end

-- Give a pending dead letter of a run another status.
local function move_letter(run, letter, status, why)
  local node, scope, generation = letter[D_NODE], letter[D_SCOPE], letter[D_GENERATION]
  letter[D_STATUS], letter[D_SETTLED_MS], letter[D_WHY] = status, now, why
  put(run, undo.letter_field(node, scope, generation), pack(unpack(letter, 1, D_LAST)))
  local tenant, member = run[R_TENANT], letter_member(run[R_NAME], node, scope, generation)
  leave(dead_key(tenant, 'pending'), member)
  enter(dead_key(tenant, status), member, letter[D_AT_MS])
end
