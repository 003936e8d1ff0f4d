-- name: count_open_runs
SELECT status, count(*)
FROM minuet.runs
WHERE tenant = $1 AND status = ANY ($2::minuet.run_status[])
GROUP BY status;

-- name: count_pending_dead_letters
SELECT count(*)
FROM minuet.dead_letters
WHERE tenant = $1 AND status = 'pending';
