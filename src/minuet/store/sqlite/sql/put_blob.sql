-- Blobs that belong to no run: plans, and the configs that they name.

-- name: put_blob
INSERT INTO blobs (tenant, ref, data, touched_ms) VALUES (:tenant, :ref, :data, :now)
ON CONFLICT (tenant, ref) DO UPDATE
SET touched_ms = excluded.touched_ms
WHERE abs(excluded.touched_ms - touched_ms) >= :touch;
