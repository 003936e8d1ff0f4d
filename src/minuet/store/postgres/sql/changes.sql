-- name: forget_sessions
DELETE FROM minuet.sessions WHERE at_ms < coalesce($1::bigint, minuet.now_ms()) - $2;

-- name: due
-- What a sweep finds; it looks again once it has the locks. A lease that seems to end too far
-- ahead was granted before the clock was set back.
WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, minuet.now_ms()) AS now_ms)
SELECT 0 AS kind, x.tenant, x.run, x.node, x.scope
FROM (
    SELECT t.due_ms, t.tenant, t.run, t.node, t.scope
    FROM minuet.tokens AS t
    WHERE t.state = 'leased'
        AND (t.due_ms <= (SELECT now_ms FROM clock) OR t.due_ms > (SELECT now_ms FROM clock) + $2)
    ORDER BY t.due_ms, t.run, t.node, t.scope
    LIMIT $3
) AS x
UNION ALL
SELECT 1, x.tenant, x.run, x.node, x.scope
FROM (
    SELECT t.due_ms, t.tenant, t.run, t.node, t.scope
    FROM minuet.tokens AS t
    WHERE t.state = 'waiting' AND t.due_ms IS NOT NULL
        AND t.due_ms <= (SELECT now_ms FROM clock)
    ORDER BY t.due_ms, t.run, t.node, t.scope
    LIMIT $3
) AS x
UNION ALL
SELECT 2, x.tenant, x.run, '', ''
FROM (
    SELECT r.deadline_ms, r.tenant, r.run
    FROM minuet.runs AS r
    WHERE r.deadline_ms IS NOT NULL AND r.deadline_ms <= (SELECT now_ms FROM clock)
    ORDER BY r.deadline_ms, r.run
    LIMIT $3
) AS x;

-- name: next_due
-- The queues are found by stepping from one to the next in the index of ready tokens.
WITH RECURSIVE queues (tenant, queue) AS (
    (
        SELECT tenant, queue
        FROM minuet.tokens
        WHERE state = 'ready' AND lane = ''
        ORDER BY tenant, queue
        LIMIT 1
    )
    UNION ALL
    SELECT t.tenant, t.queue
    FROM queues AS q
    CROSS JOIN LATERAL (
        SELECT tenant, queue
        FROM minuet.tokens
        WHERE state = 'ready' AND lane = '' AND (tenant, queue) > (q.tenant, q.queue)
        ORDER BY tenant, queue
        LIMIT 1
    ) AS t
)
SELECT min(due_ms)
FROM (
    SELECT min(due_ms) AS due_ms FROM minuet.tokens WHERE state = 'leased'
    UNION ALL
    SELECT min(due_ms) FROM minuet.tokens WHERE state = 'waiting' AND due_ms IS NOT NULL
    UNION ALL
    SELECT min(deadline_ms) FROM minuet.runs WHERE deadline_ms IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(due_ms)
        FROM minuet.tokens AS t
        WHERE t.state = 'ready' AND t.lane = '' AND t.tenant = q.tenant AND t.queue = q.queue
            AND t.due_ms > coalesce($1::bigint, minuet.now_ms())
    )
    FROM queues AS q
) AS x;

-- name: lock_idempotency_keys
-- One at a time for each key, in one order, so that two who create the same wait for each other.
SELECT pg_advisory_xact_lock(k.number)
FROM (
    SELECT DISTINCT hashtextextended(x.tenant || '/' || encode(x.key, 'hex'), 1) AS number
    FROM unnest($1::text[], $2::bytea[]) AS x (tenant, key)
    ORDER BY number
) AS k;

-- name: find_by_idempotency_key
SELECT r.*
FROM unnest($1::text[], $2::bytea[]) AS k (tenant, key)
JOIN minuet.runs AS r ON r.tenant = k.tenant AND r.idempotency_key = k.key;

-- name: lock_deletable_runs
SELECT run, id
FROM minuet.runs
WHERE run = ANY ($1) AND tenant = $2 AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')
ORDER BY run
FOR UPDATE;

-- name: lock_outdated_runs
-- Other sweeps delete the ones that they have locked.
SELECT run, id
FROM minuet.runs
WHERE ended_ms IS NOT NULL AND ended_ms <= coalesce($1::bigint, minuet.now_ms()) - $2
ORDER BY ended_ms
LIMIT $3
FOR UPDATE SKIP LOCKED;

-- name: remove_rows
WITH
    t AS (DELETE FROM minuet.tokens WHERE run = ANY ($1)),
    j AS (DELETE FROM minuet.joins WHERE run = ANY ($1)),
    a AS (DELETE FROM minuet.arrivals WHERE run = ANY ($1)),
    s AS (DELETE FROM minuet.steps WHERE run = ANY ($1))
DELETE FROM minuet.dead_letters WHERE run = ANY ($1);

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

-- name: remove_events
DELETE FROM minuet.events WHERE run_id = (SELECT id FROM minuet.runs WHERE run = $1);

-- name: insert_whole_tokens
INSERT INTO minuet.tokens SELECT * FROM unnest($1::minuet.tokens[]);

-- name: replace_run
-- Also what no other change touches.
UPDATE minuet.runs AS r
SET workflow = x.workflow, tags = x.tags, idempotency_key = x.idempotency_key,
    created_ms = x.created_ms, parent = x.parent
FROM unnest($1::minuet.runs[]) AS x
WHERE r.run = x.run;

-- name: discard_dead_letter
UPDATE minuet.dead_letters
SET status = 'discarded'
WHERE run = $1 AND node = $2 AND scope = $3 AND tenant = $4 AND status = 'pending'
RETURNING 1;

-- name: find_run_blobs
SELECT run, ref
FROM unnest($1::text[], $2::text[]) AS wanted (run, ref) JOIN minuet.run_blobs USING (run, ref);

-- name: put_run_blob
-- Whoever removes the run waits for this, or this for him: none is left behind.
WITH owner AS MATERIALIZED (
    SELECT run, tenant FROM minuet.runs WHERE run = $1 AND tenant = $3 FOR KEY SHARE
), kept AS (
    INSERT INTO minuet.run_blobs (run, ref, tenant, data) SELECT run, $2, tenant, $4 FROM owner
    ON CONFLICT DO NOTHING
)
SELECT run FROM owner;

-- name: insert_run_blob
INSERT INTO minuet.run_blobs (run, ref, tenant, data) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;
