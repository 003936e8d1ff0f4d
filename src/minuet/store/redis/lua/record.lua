-- What a record behind this store has of a run: its first events, up to the number in field `m`.

local function logged_of(run) return tonumber(call('HGET', run[R_KEY], 'm') or 0) end

local function read_events(run, first, last)
  local fields = {}
  for seq = first, last do fields[#fields + 1] = 'e' .. seq end
  return get_fields(run[R_KEY], fields)
end
