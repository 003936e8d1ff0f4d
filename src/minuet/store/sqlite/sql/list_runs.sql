-- name: list_runs
SELECT {numbered_run}
FROM runs
WHERE tenant = :tenant AND run < :before
ORDER BY run DESC
LIMIT :limit;

-- name: list_runs_by_status
SELECT {numbered_run}
FROM runs
WHERE tenant = :tenant AND status = :status AND run < :before
ORDER BY run DESC
LIMIT :limit;

-- name: list_runs_by_workflow
SELECT {numbered_run}
FROM runs
WHERE tenant = :tenant AND workflow = :workflow AND status = :status AND run < :before
ORDER BY run DESC
LIMIT :limit;
