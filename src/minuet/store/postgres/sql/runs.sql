-- name: insert_runs
-- In the order of their names: two calls that insert the same ones wait and do not deadlock.
INSERT INTO minuet.runs ({run})
SELECT {run} FROM unnest($1::minuet.run_row[])
ORDER BY run
RETURNING run, id;

-- name: replace_run
-- Also what no other change touches.
UPDATE minuet.runs AS r
SET {run_fixed = x}
FROM unnest($1::minuet.run_row[]) AS x
WHERE r.run = x.run;

-- name: lock_idempotency_keys
-- One at a time for each key, in one order, so that two calls that create the same run
-- wait for each other.
SELECT pg_advisory_xact_lock(k.number)
FROM (
    SELECT DISTINCT hashtextextended(x.tenant || '/' || encode(x.key, 'hex'), 1) AS number
    FROM unnest($1::text[], $2::bytea[]) AS x (tenant, key)
    ORDER BY number
) AS k;

-- name: find_by_idempotency_key
SELECT {r.numbered_run}
FROM unnest($1::text[], $2::bytea[]) AS k (tenant, key)
JOIN minuet.runs AS r ON r.tenant = k.tenant AND r.idempotency_key = k.key;

-- name: load_first_events
SELECT r.run, e.data
FROM minuet.runs AS r
JOIN minuet.events AS e ON e.run_id = r.id AND e.seq = 1
WHERE r.run = ANY ($1);
