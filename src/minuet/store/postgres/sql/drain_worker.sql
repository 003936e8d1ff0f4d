-- name: drain_worker
UPDATE minuet.workers
SET draining = true
WHERE tenant = $1 AND worker = $2 AND NOT removed
RETURNING 1;
