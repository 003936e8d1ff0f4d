-- name: list_waiting
SELECT {stored_token}
FROM minuet.tokens
WHERE state = 'waiting' AND tenant = $1 AND wait = $2
ORDER BY run, node, scope
LIMIT $3;

-- name: list_waiting_for_key
SELECT {stored_token}
FROM minuet.tokens
WHERE state = 'waiting' AND tenant = $1 AND wait = $2 AND wait_key = $4
ORDER BY run, node, scope
LIMIT $3;
