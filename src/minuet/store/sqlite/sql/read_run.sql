-- name: read_run
SELECT {numbered_run} FROM runs WHERE run = :run AND tenant = :tenant;
