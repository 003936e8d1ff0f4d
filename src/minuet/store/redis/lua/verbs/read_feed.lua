-- read_feed: the events of all runs of this partition, as the feed lists them. request: the id of an
-- entry or nil, how many entries.
-- Result: {'end', id of the newest entry}, without an id in the request; {'lost'}: the feed has no
-- entry with this id; {'found', {id, {tenant, workflow, run, first seq, {record, …}}, …}, …} from this
-- entry on.

local function is_whole()
  local about = call('XINFO', 'STREAM', FEED)
  local values = {}
  for i = 1, #about, 2 do values[about[i]] = about[i + 1] end
  return values['entries-added'] == values.length
end

local after, limit = unpack(unpack_row(request), 1, 2)
if not after then
  local newest = call('XREVRANGE', FEED, '+', '-', 'COUNT', 1)
  return { 'end', newest[1] and newest[1][1] or '0-0' }
end
local entries = call('XRANGE', FEED, after, '+', 'COUNT', limit + 1)
if after == '0-0' then
  -- The beginning, if nothing was dropped since.
  if entries[1] and not is_whole() then return { 'lost' } end
elseif not entries[1] or entries[1][1] ~= after then
  return { 'lost' }
end
local found = { 'found' }
for _, entry in ipairs(entries) do
  local listed = { entry[1] }
  for name, first, last in entry[2][2]:gmatch('(%Z+)%z(%d+)%z(%d+)') do
    local run = load_run(name)
    if run then
      listed[#listed + 1] = { run[R_TENANT], run[R_WORKFLOW], name, tonumber(first),
        read_events(run, tonumber(first), math.min(tonumber(last), run[R_SEQ])) }
    else
      listed[#listed + 1] = false
    end
  end
  found[#found + 1] = listed
end
return found
