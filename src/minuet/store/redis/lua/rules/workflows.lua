-- Deployed workflows: which version a call adds, and which one its tags name.

-- Exports. Everything else stays local to this block.
local deploy, number_of

do

local compared, is_same

-- The numbers of the versions that a new one may be the same as, in this order.
function compared(newest, named, asked, tags)
  if asked > 0 then return { asked } end
  local numbers = {}
  for _, tag in ipairs(tags) do numbers[#numbers + 1] = named[tag] end
  if newest > 0 then numbers[#numbers + 1] = newest end
  return numbers
end

-- Deploy a version beside those that `compared` listed. `find` gives the row of one by its number. Result: its
-- number (nil: it cannot have the one that it asks for), and whether it is new.
function deploy(newest, named, find, asked, plan, document, tags)
  for _, number in ipairs(compared(newest, named, asked, tags)) do
    if is_same(find(number), plan, document) then return number, false end
  end
  if asked > 0 and asked ~= newest + 1 then return nil end
  return newest + 1, true
end

-- Whether a version has this content.
function is_same(row, plan, document)
  if not row then return false end
  local version = { unpack_row(row) }
  return version[V_PLAN] == plan and version[V_DOCUMENT] == document
end

-- The number of the version that a caller names by its number, by a tag, or (nil) as the newest; nil: there
-- is none.
function number_of(newest, tags, at)
  if at == nil then return newest > 0 and newest or nil end
  local number = at
  if type(at) == 'string' then number = tags[at] end
  return number and number >= 1 and number <= newest and number or nil
end

end
