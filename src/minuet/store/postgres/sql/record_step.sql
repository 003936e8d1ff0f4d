-- name: load_step
SELECT value FROM minuet.steps WHERE run = $1 AND node = $2 AND scope = $3 AND name = $4;

-- name: insert_step
INSERT INTO minuet.steps (run, node, scope, name, value)
VALUES ($1, $2, $3, $4, $5);
