-- name: find_ended
SELECT run FROM runs
WHERE run IN (SELECT value FROM json_each(:runs)) AND status IN ('COMPLETED', 'FAILED', 'CANCELLED');
