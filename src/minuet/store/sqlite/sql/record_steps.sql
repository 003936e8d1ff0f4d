-- name: load_step
SELECT value FROM steps WHERE run = ? AND node = ? AND scope = ? AND name = ?;

-- name: insert_step
INSERT INTO steps (run, node, scope, name, value) VALUES (?, ?, ?, ?, ?);
