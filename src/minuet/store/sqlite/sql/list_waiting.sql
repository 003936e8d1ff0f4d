-- name: list_waiting
SELECT {numbered_token}
FROM tokens
WHERE state = 'waiting' AND tenant = :tenant AND wait = :kind
ORDER BY run, node, scope
LIMIT :limit;

-- name: list_waiting_for_key
SELECT {numbered_token}
FROM tokens
WHERE state = 'waiting' AND tenant = :tenant AND wait = :kind AND wait_key = :key
ORDER BY run, node, scope
LIMIT :limit;
