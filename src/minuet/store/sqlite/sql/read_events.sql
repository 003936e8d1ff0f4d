-- name: read_events
SELECT r.run, {e.event}
FROM runs AS r CROSS JOIN events AS e ON e.run_id = r.id
WHERE r.run = :run AND r.tenant = :tenant AND e.seq > :after
ORDER BY e.seq
LIMIT :limit;
