-- name: list_notable
SELECT {numbered_run} FROM minuet.runs WHERE notable > 0 AND run > $1 ORDER BY run LIMIT $2;
