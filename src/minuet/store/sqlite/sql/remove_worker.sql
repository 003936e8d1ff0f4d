-- name: remove_worker
UPDATE workers
SET removed = 1
WHERE tenant = :tenant AND worker = :worker AND removed = 0
RETURNING 1;
