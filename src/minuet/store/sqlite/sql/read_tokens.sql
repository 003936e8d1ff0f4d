-- name: read_tokens
SELECT {numbered_token} FROM tokens WHERE run = :run AND tenant = :tenant ORDER BY node, scope;
