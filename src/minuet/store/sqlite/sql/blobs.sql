-- Blobs that belong to no run: plans, and the configs that they name.

-- name: put_blob
INSERT INTO blobs (tenant, ref, data, touched_ms) VALUES (:tenant, :ref, :data, :now)
ON CONFLICT (tenant, ref) DO UPDATE
SET touched_ms = excluded.touched_ms
WHERE abs(excluded.touched_ms - touched_ms) >= :touch;

-- name: touch_blobs
UPDATE blobs
SET touched_ms = :now
WHERE tenant = :tenant
    AND ref IN (SELECT value FROM json_each(:refs))
    AND abs(:now - touched_ms) >= :touch;

-- name: find_blobs
SELECT ref FROM blobs WHERE tenant = :tenant AND ref IN (SELECT value FROM json_each(:refs));

-- name: list_blobs
SELECT ref, touched_ms
FROM blobs
WHERE tenant = :tenant AND ref > :after AND touched_ms <= :before
ORDER BY ref
LIMIT :limit;

-- name: delete_blobs
DELETE FROM blobs
WHERE tenant = :tenant
    AND (ref, touched_ms) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:blobs))
RETURNING 1;

-- name: list_plans
SELECT run, plan FROM runs WHERE tenant = :tenant AND run > :after ORDER BY run LIMIT :limit;
