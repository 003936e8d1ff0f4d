-- name: count_open_runs
SELECT count(*)
FROM runs
WHERE tenant = :tenant AND status = :status;

-- name: count_pending_dead_letters
SELECT count(*)
FROM dead_letters
WHERE tenant = :tenant AND status = 'pending';
