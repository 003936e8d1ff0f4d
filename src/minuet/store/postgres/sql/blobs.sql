-- Blobs that belong to no run: plans, and the configs that they name. The runs of a store and
-- those of a record in the same schema share them.

-- name: put_blob
INSERT INTO minuet.blobs AS b (tenant, ref, data, touched_ms)
VALUES ($1, $2, $3, coalesce($4::bigint, minuet.now_ms()))
ON CONFLICT (tenant, ref) DO UPDATE
SET touched_ms = excluded.touched_ms
WHERE abs(excluded.touched_ms - b.touched_ms) >= $5::bigint;

-- name: touch_blobs
-- Waits for somebody who is deleting one of them; whether it is there is asked afterwards.
WITH clock AS MATERIALIZED (SELECT coalesce($3::bigint, minuet.now_ms()) AS now_ms)
UPDATE minuet.blobs AS b
SET touched_ms = clock.now_ms
FROM clock
WHERE b.tenant = $1 AND b.ref = ANY ($2::text[]) AND abs(clock.now_ms - b.touched_ms) >= $4::bigint;

-- name: find_blobs
SELECT ref FROM minuet.blobs WHERE tenant = $1 AND ref = ANY ($2::text[]);

-- name: list_blobs
SELECT ref, touched_ms
FROM minuet.blobs
WHERE tenant = $1 AND ref > $2 AND touched_ms <= coalesce($3::bigint, minuet.now_ms()) - $4::bigint
ORDER BY ref
LIMIT $5;

-- name: delete_blobs
WITH doomed AS (
    DELETE FROM minuet.blobs AS b
    USING unnest($2::text[], $3::bigint[]) AS listed (ref, touched_ms)
    WHERE b.tenant = $1 AND b.ref = listed.ref AND b.touched_ms = listed.touched_ms
    RETURNING 1
)
SELECT count(*) FROM doomed;

-- name: list_plans
SELECT run, plan FROM minuet.runs WHERE tenant = $1 AND run > $2 ORDER BY run LIMIT $3;

-- name: list_record_plans
SELECT run, state, submission
FROM minuet.record_runs
WHERE tenant = $1 AND run > $2
ORDER BY run
LIMIT $3;

-- name: list_blob_tenants
-- Stepping from one to the next in the index: their blobs are not looked at.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM minuet.blobs ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT b.tenant
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT tenant FROM minuet.blobs WHERE tenant > f.tenant ORDER BY tenant LIMIT 1
    ) AS b
)
SELECT tenant FROM found;
