-- name: forget_workers
DELETE FROM workers WHERE heartbeat_ms < :before RETURNING 1;
