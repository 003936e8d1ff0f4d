-- name: forget_idle
-- Skips rows that another call has locked.
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
