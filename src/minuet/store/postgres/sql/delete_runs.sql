-- name: lock_deletable_runs
-- A child run is needed while its parent is open.
SELECT r.run, r.id
FROM minuet.runs AS r
WHERE r.run = ANY ($1) AND r.tenant = $2 AND r.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
    AND NOT r.unreported
    AND NOT EXISTS (SELECT FROM minuet.runs AS p WHERE p.run = r.parent AND p.ended_ms IS NULL)
ORDER BY r.run
FOR UPDATE;

-- name: delete_runs
-- The bytes of the blobs that went.
WITH
    r AS (DELETE FROM minuet.runs WHERE run = ANY ($1)),
    e AS (DELETE FROM minuet.events WHERE run_id = ANY ($2)),
    b AS (DELETE FROM minuet.run_blobs WHERE run = ANY ($1) RETURNING octet_length(data) AS bytes)
SELECT coalesce(sum(bytes), 0)::bigint FROM b;

-- name: vacuum_blobs
-- Not inside a transaction.
VACUUM (SKIP_LOCKED) minuet.run_blobs;

-- name: remove_rows
WITH
    t AS (DELETE FROM minuet.tokens WHERE run = ANY ($1)),
    j AS (DELETE FROM minuet.joins WHERE run = ANY ($1)),
    a AS (DELETE FROM minuet.arrivals WHERE run = ANY ($1)),
    s AS (DELETE FROM minuet.steps WHERE run = ANY ($1)),
    m AS (DELETE FROM minuet.signals WHERE run = ANY ($1))
DELETE FROM minuet.dead_letters WHERE run = ANY ($1);
