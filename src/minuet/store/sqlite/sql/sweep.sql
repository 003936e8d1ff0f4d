-- name: expired_leases
-- A lease that seems to end too far ahead was granted before the clock was set back.
SELECT due_ms, run, node, scope FROM tokens WHERE state = 'leased' AND due_ms <= :now
UNION ALL
SELECT due_ms, run, node, scope FROM tokens WHERE state = 'leased' AND due_ms > :latest
ORDER BY due_ms, run, node, scope
LIMIT :limit;

-- name: leases_of_sessions
-- What these sessions hold. Only asked about sessions of processes that are gone.
SELECT t.run, t.node, t.scope
FROM tokens AS t
JOIN json_each(:sessions) AS s ON t.tenant = s.value ->> 0 AND t.session = s.value ->> 1
WHERE t.state = 'leased'
ORDER BY t.due_ms, t.run, t.node, t.scope
LIMIT :limit;

-- name: due_timers
SELECT tenant, run, node, scope
FROM tokens
WHERE state = 'waiting' AND due_ms IS NOT NULL AND due_ms <= :now
ORDER BY due_ms, run, node, scope
LIMIT :limit;

-- name: overdue_runs
SELECT run
FROM runs
WHERE deadline_ms IS NOT NULL AND deadline_ms <= :now
ORDER BY deadline_ms, run
LIMIT :limit;

-- name: outdated_runs
SELECT r.run
FROM runs AS r
LEFT JOIN runs AS p ON p.run = r.parent AND p.ended_ms IS NULL
WHERE r.ended_ms IS NOT NULL AND r.ended_ms <= :latest AND r.unreported = 0 AND p.run IS NULL
ORDER BY r.ended_ms
LIMIT :limit;

-- name: next_due
-- The queues are found by stepping from one to the next in the index of ready tokens.
WITH RECURSIVE queues (tenant, queue) AS (
    SELECT * FROM (
        SELECT tenant, queue
        FROM tokens
        WHERE state = 'ready' AND lane = ''
        ORDER BY tenant, queue
        LIMIT 1
    )
    UNION ALL
    SELECT t.tenant, t.queue
    FROM queues AS q
    CROSS JOIN tokens AS t ON t.id = (
        SELECT id
        FROM tokens
        WHERE state = 'ready' AND lane = '' AND (tenant, queue) > (q.tenant, q.queue)
        ORDER BY tenant, queue
        LIMIT 1
    )
)
SELECT min(due_ms)
FROM (
    SELECT min(due_ms) AS due_ms FROM tokens WHERE state = 'leased'
    UNION ALL
    SELECT min(due_ms) FROM tokens WHERE state = 'waiting' AND due_ms IS NOT NULL
    UNION ALL
    SELECT min(deadline_ms) FROM runs WHERE deadline_ms IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(due_ms)
        FROM tokens
        WHERE state = 'ready' AND lane = '' AND tenant = q.tenant AND queue = q.queue
            AND due_ms > :now
    )
    FROM queues AS q
);
