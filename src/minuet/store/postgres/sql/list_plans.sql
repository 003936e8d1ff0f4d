-- name: list_plans
SELECT run, plan FROM minuet.runs WHERE tenant = $1 AND run > $2 ORDER BY run LIMIT $3;

-- name: list_record_plans
SELECT run, state, submission
FROM minuet.record_runs
WHERE tenant = $1 AND run > $2
ORDER BY run
LIMIT $3;
