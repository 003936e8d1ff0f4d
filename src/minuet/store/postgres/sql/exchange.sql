-- name: settle_rows
SELECT *
FROM minuet.settle_rows(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
);

-- name: still_leased
SELECT * FROM minuet.leased_rows($1, $2);

-- name: load_headers
SELECT {numbered_run} FROM minuet.runs WHERE tenant = $1 AND run = ANY ($2);
