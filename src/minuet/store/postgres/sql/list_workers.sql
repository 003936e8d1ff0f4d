-- name: list_workers
SELECT record, registered_ms, heartbeat_ms,
    greatest(0, coalesce($3::bigint, minuet.now_ms()) - heartbeat_ms), draining
FROM minuet.workers
WHERE tenant = $1 AND NOT removed
ORDER BY worker
LIMIT $2;
