-- name: list_notable
SELECT {numbered_run} FROM runs WHERE notable > 0 AND run > :after ORDER BY run LIMIT :limit;
