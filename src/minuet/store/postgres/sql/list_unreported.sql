-- name: list_unreported
SELECT {numbered_run} FROM minuet.runs WHERE unreported AND run > $1 ORDER BY run LIMIT $2;
