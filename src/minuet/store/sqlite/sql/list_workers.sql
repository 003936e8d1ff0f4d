-- name: list_workers
SELECT record, registered_ms, heartbeat_ms, draining
FROM workers
WHERE tenant = :tenant AND removed = 0
ORDER BY worker
LIMIT :limit;
