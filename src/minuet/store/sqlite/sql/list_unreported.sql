-- name: list_unreported
SELECT {numbered_run} FROM runs WHERE unreported = 1 AND run > :after ORDER BY run LIMIT :limit;
