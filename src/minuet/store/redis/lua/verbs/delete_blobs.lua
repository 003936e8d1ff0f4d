-- delete_blobs: for one blob that belongs to no run. request: when it was last touched. Result: 1 when
-- it is gone by this, 0 when it was touched since.

if touched_ms() ~= unpack_row(request)[1] then return 0 end
return call('UNLINK', base)
