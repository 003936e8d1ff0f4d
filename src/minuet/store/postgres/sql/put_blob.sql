-- Blobs that belong to no run: plans, and the configs that they name. The runs of a store and
-- those of a record in the same schema share them.

-- name: put_blob
INSERT INTO minuet.blobs AS b (tenant, ref, data, touched_ms)
VALUES ($1, $2, $3, coalesce($4::bigint, minuet.now_ms()))
ON CONFLICT (tenant, ref) DO UPDATE
SET touched_ms = excluded.touched_ms
WHERE abs(excluded.touched_ms - b.touched_ms) >= $5::bigint;
