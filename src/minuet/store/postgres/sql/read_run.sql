-- name: read_run
SELECT {numbered_run} FROM minuet.runs WHERE run = $1 AND tenant = $2;
