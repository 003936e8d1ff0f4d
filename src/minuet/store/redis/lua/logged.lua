-- What the log behind this store has of a run: its first events, up to the number in field F_LOGGED.

local function logged_of(run) return tonumber(call('HGET', run[R_KEY], F_LOGGED) or 0) end

local function read_events(run, first, last)
  local fields = {}
  for seq = first, last do fields[#fields + 1] = F_EVENT .. seq end
  return get_fields(run[R_KEY], fields)
end
