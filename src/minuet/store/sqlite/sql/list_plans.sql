-- name: list_plans
SELECT run, plan FROM runs WHERE tenant = :tenant AND run > :after ORDER BY run LIMIT :limit;
