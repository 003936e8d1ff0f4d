-- name: read_tokens
SELECT {stored_token} FROM minuet.tokens WHERE run = $1 AND tenant = $2 ORDER BY node, scope;
