-- name: register_worker
INSERT INTO workers (tenant, worker, record, registered_ms, heartbeat_ms, draining, removed)
VALUES (:tenant, :worker, :record, :now, :now, 0, 0)
ON CONFLICT (tenant, worker) DO UPDATE
SET record = excluded.record, heartbeat_ms = excluded.heartbeat_ms
RETURNING draining OR removed;

-- name: forget_workers
DELETE FROM workers WHERE heartbeat_ms < :before RETURNING 1;

-- name: drain_worker
UPDATE workers
SET draining = 1
WHERE tenant = :tenant AND worker = :worker AND removed = 0
RETURNING 1;

-- name: remove_worker
UPDATE workers
SET removed = 1
WHERE tenant = :tenant AND worker = :worker AND removed = 0
RETURNING 1;

-- name: list_workers
SELECT record, registered_ms, heartbeat_ms, draining
FROM workers
WHERE tenant = :tenant AND removed = 0
ORDER BY worker
LIMIT :limit;

-- name: find_queues
-- Found by stepping from one queue to the next in the index of ready tokens.
WITH RECURSIVE queues (queue) AS (
    SELECT * FROM (
        SELECT queue
        FROM tokens
        WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue > :after
            AND queue >= :prefix AND queue < :end
        ORDER BY queue
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue
        FROM tokens
        WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue > q.queue
            AND queue < :end
        ORDER BY queue
        LIMIT 1
    )
    FROM queues AS q
    WHERE q.queue IS NOT NULL
)
SELECT queue FROM queues WHERE queue IS NOT NULL LIMIT :limit;
