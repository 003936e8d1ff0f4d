-- name: delete_blobs
DELETE FROM blobs
WHERE tenant = :tenant
    AND (ref, touched_ms) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:blobs))
RETURNING 1;
