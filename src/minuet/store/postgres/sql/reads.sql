-- name: read_run
SELECT * FROM minuet.runs WHERE run = $1 AND tenant = $2;

-- name: list_runs
SELECT *
FROM minuet.runs
WHERE tenant = $1 AND ($2::text IS NULL OR run < $2)
ORDER BY run DESC
LIMIT $3;

-- name: list_runs_by_status
-- Each status has its own stretch of the index: the newest of each, merged.
SELECT r.*
FROM unnest($4::minuet.run_status[]) AS s (status)
CROSS JOIN LATERAL (
    SELECT *
    FROM minuet.runs AS r
    WHERE r.tenant = $1 AND r.status = s.status AND ($2::text IS NULL OR r.run < $2)
    ORDER BY r.run DESC
    LIMIT $3
) AS r
ORDER BY r.run DESC
LIMIT $3;

-- name: list_runs_by_workflow
SELECT r.*
FROM unnest($4::minuet.run_status[]) AS s (status)
CROSS JOIN LATERAL (
    SELECT *
    FROM minuet.runs AS r
    WHERE r.tenant = $1
        AND r.workflow = $5
        AND r.status = s.status
        AND ($2::text IS NULL OR r.run < $2)
    ORDER BY r.run DESC
    LIMIT $3
) AS r
ORDER BY r.run DESC
LIMIT $3;

-- name: read_events
SELECT r.run, e.seq, e.at_ms, e.data
FROM minuet.runs AS r
JOIN minuet.events AS e ON e.run_id = r.id
WHERE r.run = $1 AND r.tenant = $2 AND e.seq > $3
ORDER BY e.seq
LIMIT $4;

-- name: read_tokens
SELECT * FROM minuet.tokens WHERE run = $1 AND tenant = $2 ORDER BY node, scope;

-- name: read_joins
SELECT * FROM minuet.joins WHERE run = $1 ORDER BY node, scope;

-- name: read_arrivals
SELECT * FROM minuet.arrivals WHERE run = $1 ORDER BY node, scope, source;

-- name: read_run_steps
SELECT node, scope, name, value FROM minuet.steps WHERE run = $1 ORDER BY node, scope, name;

-- name: read_run_dead_letters
SELECT * FROM minuet.dead_letters WHERE run = $1 ORDER BY node, scope, generation;

-- name: read_steps
SELECT name, value
FROM minuet.steps
WHERE run = $1
    AND node = $2
    AND scope = $3
    AND EXISTS (SELECT FROM minuet.runs WHERE run = $1 AND tenant = $4)
ORDER BY name;

-- name: list_waiting
SELECT *
FROM minuet.tokens
WHERE state = 'waiting' AND tenant = $1 AND wait = $2
ORDER BY run, node, scope
LIMIT $3;

-- name: list_waiting_for_key
SELECT *
FROM minuet.tokens
WHERE state = 'waiting' AND tenant = $1 AND wait = $2 AND wait_key = $4
ORDER BY run, node, scope
LIMIT $3;

-- name: list_dead_letters
SELECT *
FROM minuet.dead_letters
WHERE tenant = $1 AND ($2::text IS NULL OR status = $2)
ORDER BY at_ms, run, node, scope, generation
LIMIT $3;

-- name: list_pending_dead_letters
SELECT *
FROM minuet.dead_letters
WHERE tenant = $1 AND status = 'pending'
ORDER BY at_ms, run, node, scope, generation
LIMIT $2;

-- name: list_dead_letters_of_run
SELECT *
FROM minuet.dead_letters
WHERE tenant = $1 AND run = $4 AND ($2::text IS NULL OR status = $2)
ORDER BY at_ms, run, node, scope, generation
LIMIT $3;

-- name: list_tenants
-- Stepping from one to the next in the index: their runs are not looked at.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM minuet.runs ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT r.tenant
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT tenant FROM minuet.runs WHERE tenant > f.tenant ORDER BY tenant LIMIT 1
    ) AS r
)
SELECT tenant FROM found;

-- name: list_queues
SELECT tenant, queue, sum(ready)::bigint, sum(leased)::bigint, min(oldest)
FROM (
    SELECT tenant, queue, count(*) AS ready, 0 AS leased, min(due_ms) AS oldest
    FROM minuet.tokens
    WHERE state = 'ready' AND lane = ''
    GROUP BY tenant, queue
    UNION ALL
    SELECT tenant, queue, count(*), 0, min(due_ms)
    FROM minuet.tokens
    WHERE lane <> '' AND state = 'ready'
    GROUP BY tenant, queue
    UNION ALL
    SELECT tenant, queue, 0, count(*), NULL
    FROM minuet.tokens
    WHERE state = 'leased'
    GROUP BY tenant, queue
) AS x
GROUP BY tenant, queue
ORDER BY tenant, queue;

-- name: next_work
-- How long until the oldest token in these queues may be taken; NULL: there is none. $4: the
-- runs that it must belong to; NULL: any.
SELECT min(t.due_ms) - coalesce($3::bigint, minuet.now_ms())
FROM unnest($2::text[]) AS q (queue)
CROSS JOIN LATERAL (
    SELECT due_ms
    FROM minuet.tokens
    WHERE state = 'ready' AND lane = '' AND tenant = $1 AND queue = q.queue
        AND ($4::text[] IS NULL OR run = ANY ($4::text[]))
    ORDER BY due_ms
    LIMIT 1
) AS t;

-- name: run_seq
SELECT seq FROM minuet.runs WHERE run = $1;

-- name: find_ended
SELECT run FROM minuet.runs
WHERE run = ANY($1::text[]) AND status IN ('COMPLETED', 'FAILED', 'CANCELLED');

-- name: get_blob
SELECT data FROM minuet.run_blobs WHERE run = $3 AND ref = $2 AND tenant = $1
UNION ALL
SELECT data FROM minuet.blobs WHERE tenant = $1 AND ref = $2
LIMIT 1;
