-- name: read_run
SELECT * FROM runs WHERE run = :run AND tenant = :tenant;

-- name: list_runs
SELECT *
FROM runs
WHERE tenant = :tenant AND run < :before
ORDER BY run DESC
LIMIT :limit;

-- name: list_runs_by_status
SELECT *
FROM runs
WHERE tenant = :tenant AND status = :status AND run < :before
ORDER BY run DESC
LIMIT :limit;

-- name: list_runs_by_workflow
SELECT *
FROM runs
WHERE tenant = :tenant AND workflow = :workflow AND status = :status AND run < :before
ORDER BY run DESC
LIMIT :limit;

-- name: read_events
SELECT r.run, e.seq, e.at_ms, e.data
FROM runs AS r CROSS JOIN events AS e ON e.run_id = r.id
WHERE r.run = :run AND r.tenant = :tenant AND e.seq > :after
ORDER BY e.seq
LIMIT :limit;

-- name: read_tokens
SELECT * FROM tokens WHERE run = :run AND tenant = :tenant ORDER BY node, scope;

-- name: read_joins
SELECT * FROM joins WHERE run = :run ORDER BY node, scope;

-- name: read_arrivals
SELECT * FROM arrivals WHERE run = :run ORDER BY node, scope, source;

-- name: read_run_steps
SELECT node, scope, name, value FROM steps WHERE run = :run ORDER BY node, scope, name;

-- name: read_run_dead_letters
SELECT * FROM dead_letters WHERE run = :run ORDER BY node, scope, generation;

-- name: read_steps
SELECT name, value
FROM steps
WHERE run = :run
    AND node = :node
    AND scope = :scope
    AND EXISTS (SELECT 1 FROM runs WHERE run = :run AND tenant = :tenant)
ORDER BY name;

-- name: list_waiting
SELECT *
FROM tokens
WHERE state = 'waiting' AND tenant = :tenant AND wait = :kind
ORDER BY run, node, scope
LIMIT :limit;

-- name: list_waiting_for_key
SELECT *
FROM tokens
WHERE state = 'waiting' AND tenant = :tenant AND wait = :kind AND wait_key = :key
ORDER BY run, node, scope
LIMIT :limit;

-- name: list_dead_letters
SELECT *
FROM dead_letters
WHERE tenant = :tenant AND (:status IS NULL OR status = :status)
ORDER BY at_ms, run, node, scope, generation
LIMIT :limit;

-- name: list_pending_dead_letters
SELECT *
FROM dead_letters
WHERE tenant = :tenant AND status = 'pending'
ORDER BY at_ms, run, node, scope, generation
LIMIT :limit;

-- name: list_dead_letters_of_run
SELECT *
FROM dead_letters
WHERE run = :run AND tenant = :tenant AND (:status IS NULL OR status = :status)
ORDER BY at_ms, run, node, scope, generation
LIMIT :limit;

-- name: list_tenants
-- Stepping from one to the next in the indexes: their runs and blobs are not looked at.
WITH RECURSIVE
    with_runs (tenant) AS (
        SELECT min(tenant) FROM runs
        UNION ALL
        SELECT (SELECT min(r.tenant) FROM runs AS r WHERE r.tenant > f.tenant)
        FROM with_runs AS f
        WHERE f.tenant IS NOT NULL
    ),
    with_blobs (tenant) AS (
        SELECT min(tenant) FROM blobs
        UNION ALL
        SELECT (SELECT min(b.tenant) FROM blobs AS b WHERE b.tenant > f.tenant)
        FROM with_blobs AS f
        WHERE f.tenant IS NOT NULL
    )
SELECT tenant FROM with_runs WHERE tenant IS NOT NULL
UNION
SELECT tenant FROM with_blobs WHERE tenant IS NOT NULL
ORDER BY tenant;

-- name: list_queues
SELECT tenant, queue, sum(ready), sum(leased), min(oldest)
FROM (
    SELECT tenant, queue, count(*) AS ready, 0 AS leased, min(due_ms) AS oldest
    FROM tokens
    WHERE state = 'ready' AND lane = ''
    GROUP BY tenant, queue
    UNION ALL
    SELECT tenant, queue, count(*), 0, min(due_ms)
    FROM tokens
    WHERE lane <> '' AND state = 'ready'
    GROUP BY tenant, queue
    UNION ALL
    SELECT tenant, queue, 0, count(*), NULL
    FROM tokens
    WHERE state = 'leased'
    GROUP BY tenant, queue
)
GROUP BY tenant, queue
ORDER BY tenant, queue;

-- name: has_work
-- :runs: these only, as JSON; NULL: any. With "+", the queue's index is walked and not the run's.
SELECT 1
FROM json_each(:queues) AS q
WHERE EXISTS (
    SELECT 1
    FROM tokens
    WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue = q.value
        AND due_ms <= :now
        AND (:runs IS NULL OR +run IN (SELECT value FROM json_each(:runs)))
)
LIMIT 1;

-- name: run_seq
SELECT seq FROM runs WHERE run = :run;

-- name: find_ended
SELECT run FROM runs
WHERE run IN (SELECT value FROM json_each(:runs)) AND status IN ('COMPLETED', 'FAILED', 'CANCELLED');

-- name: get_blob
SELECT data FROM run_blobs WHERE run = :run AND ref = :ref AND tenant = :tenant
UNION ALL
SELECT data FROM blobs WHERE tenant = :tenant AND ref = :ref
LIMIT 1;
