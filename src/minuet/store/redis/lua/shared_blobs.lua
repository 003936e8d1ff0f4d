-- Blobs that belong to no run are on any server of a cluster, each under a key of its own, which such
-- a call gets in place of a partition. The expiry of the key holds when it was last touched, because a
-- key has nothing else beside its value: it is set to a fixed time after that, in some 35,000 years.
-- 0: it was put before that was noted.

local FAR = 1125899906842624

local function touched_ms()
  local at = call('PEXPIRETIME', base)
  if at == -2 then return nil end
  return at == -1 and 0 or at - FAR
end

-- Touch the blob, unless that was done just now. Whether it is there.
local function touch_blob(touch_ms)
  local last = touched_ms()
  if not last then return false end
  if math.abs(now - last) >= touch_ms then
    call('PEXPIREAT', base, format('%.0f', now + FAR))
  end
  return true
end
