-- name: touch_blobs
-- Waits for a call that deletes one of them; whether it exists is asked afterwards.
WITH clock AS MATERIALIZED (SELECT coalesce($3::bigint, minuet.now_ms()) AS now_ms)
UPDATE minuet.blobs AS b
SET touched_ms = clock.now_ms
FROM clock
WHERE b.tenant = $1 AND b.ref = ANY ($2::text[]) AND abs(clock.now_ms - b.touched_ms) >= $4::bigint;

-- name: find_blobs
SELECT ref FROM minuet.blobs WHERE tenant = $1 AND ref = ANY ($2::text[]);
