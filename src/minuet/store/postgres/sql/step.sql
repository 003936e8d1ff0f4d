-- What a step of any verb loads and writes back, by functions (`functions/`).

-- name: load_rows
SELECT * FROM minuet.load_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: write_rows
SELECT *
FROM minuet.write_rows(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
);

-- name: repair_token
UPDATE minuet.tokens
SET queue = $4, skip = $5, given = $6, edited = $7
WHERE run = $1 AND node = $2 AND scope = $3;
