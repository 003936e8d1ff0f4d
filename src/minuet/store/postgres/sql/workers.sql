-- name: register_worker
-- Workers that fell silent long ago are forgotten on the way, except for rows that somebody else
-- is just forgetting or hearing of. It need not wait for a disk: the next heartbeat says the same.
WITH
    clock AS MATERIALIZED (
        SELECT coalesce($4::bigint, minuet.now_ms()) AS now_ms,
            set_config('synchronous_commit', 'off', true)
    ),
    silent AS (
        SELECT tenant, worker
        FROM minuet.workers
        WHERE heartbeat_ms < (SELECT now_ms FROM clock) - $5::bigint
            AND (tenant, worker) <> ($1, $2)
        FOR UPDATE SKIP LOCKED
    ),
    forgotten AS (
        DELETE FROM minuet.workers AS w
        USING silent AS s
        WHERE w.tenant = s.tenant AND w.worker = s.worker
    )
INSERT INTO minuet.workers AS w
SELECT $1, $2, $3, now_ms, now_ms, false, false
FROM clock
ON CONFLICT (tenant, worker) DO UPDATE
SET record = excluded.record, heartbeat_ms = excluded.heartbeat_ms
RETURNING w.draining OR w.removed;

-- name: forget_idle
-- Except for rows that somebody else is just forgetting or hearing of.
WITH
    clock AS MATERIALIZED (SELECT coalesce($1::bigint, minuet.now_ms()) AS now_ms),
    silent AS (
        SELECT tenant, worker
        FROM minuet.workers
        WHERE heartbeat_ms < (SELECT now_ms FROM clock) - $3::bigint
        FOR UPDATE SKIP LOCKED
    ),
    workers AS (
        DELETE FROM minuet.workers AS w
        USING silent AS s
        WHERE w.tenant = s.tenant AND w.worker = s.worker
        RETURNING 1
    ),
    ended AS (
        SELECT tenant, session
        FROM minuet.sessions
        WHERE at_ms < (SELECT now_ms FROM clock) - $2::bigint
        FOR UPDATE SKIP LOCKED
    ),
    sessions AS (
        DELETE FROM minuet.sessions AS s
        USING ended AS e
        WHERE s.tenant = e.tenant AND s.session = e.session
        RETURNING 1
    )
SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM workers);

-- name: drain_worker
UPDATE minuet.workers
SET draining = true
WHERE tenant = $1 AND worker = $2 AND NOT removed
RETURNING 1;

-- name: remove_worker
UPDATE minuet.workers
SET removed = true
WHERE tenant = $1 AND worker = $2 AND NOT removed
RETURNING 1;

-- name: list_workers
SELECT record, registered_ms, heartbeat_ms,
    greatest(0, coalesce($3::bigint, minuet.now_ms()) - heartbeat_ms), draining
FROM minuet.workers
WHERE tenant = $1 AND NOT removed
ORDER BY worker
LIMIT $2;

-- name: find_queues
-- Found by stepping from one queue to the next in the index of ready tokens.
WITH RECURSIVE queues (queue) AS (
    (
        SELECT queue
        FROM minuet.tokens
        WHERE state = 'ready' AND lane = '' AND tenant = $1 AND queue > $4
            AND queue >= $2 AND queue < $3
        ORDER BY queue
        LIMIT 1
    )
    UNION ALL
    SELECT t.queue
    FROM queues AS q
    CROSS JOIN LATERAL (
        SELECT queue
        FROM minuet.tokens
        WHERE state = 'ready' AND lane = '' AND tenant = $1 AND queue > q.queue AND queue < $3
        ORDER BY queue
        LIMIT 1
    ) AS t
)
SELECT queue FROM queues LIMIT $5;
