-- name: drain_worker
UPDATE workers
SET draining = 1
WHERE tenant = :tenant AND worker = :worker AND removed = 0
RETURNING 1;
