-- name: due
-- What a sweep finds; it checks again once it has the locks. A lease that seems to end too far
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

-- name: forget_sessions
DELETE FROM minuet.sessions WHERE at_ms < coalesce($1::bigint, minuet.now_ms()) - $2;

-- name: lock_outdated_runs
-- Other sweeps delete the ones that they have locked.
SELECT r.run, r.id
FROM minuet.runs AS r
WHERE r.ended_ms IS NOT NULL AND r.ended_ms <= coalesce($1::bigint, minuet.now_ms()) - $2
    AND NOT r.unreported
    AND NOT EXISTS (SELECT FROM minuet.runs AS p WHERE p.run = r.parent AND p.ended_ms IS NULL)
ORDER BY r.ended_ms
LIMIT $3
FOR UPDATE SKIP LOCKED;
