-- name: register_worker
INSERT INTO workers (tenant, worker, record, registered_ms, heartbeat_ms, draining, removed)
VALUES (:tenant, :worker, :record, :now, :now, 0, 0)
ON CONFLICT (tenant, worker) DO UPDATE
SET record = excluded.record, heartbeat_ms = excluded.heartbeat_ms
RETURNING draining OR removed;
