-- name: leases_of_sessions
-- What these sessions hold. Only asked about sessions of processes that are gone.
SELECT t.run, t.node, t.scope
FROM tokens AS t
JOIN json_each(:sessions) AS s ON t.tenant = s.value ->> 0 AND t.session = s.value ->> 1
WHERE t.state = 'leased'
ORDER BY t.due_ms, t.run, t.node, t.scope
LIMIT :limit;
