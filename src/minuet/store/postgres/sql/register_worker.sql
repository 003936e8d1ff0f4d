-- name: register_worker
-- Workers that fell silent long ago are forgotten here, except for rows that another call has
-- locked. It need not wait for a disk: the next heartbeat says the same.
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
    (tenant, worker, record, registered_ms, heartbeat_ms, draining, removed)
SELECT $1, $2, $3, now_ms, now_ms, false, false
FROM clock
ON CONFLICT (tenant, worker) DO UPDATE
SET record = excluded.record, heartbeat_ms = excluded.heartbeat_ms
RETURNING w.draining OR w.removed;
