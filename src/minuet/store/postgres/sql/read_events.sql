-- name: read_events
SELECT r.run, {e.event}
FROM minuet.runs AS r
JOIN minuet.events AS e ON e.run_id = r.id
WHERE r.run = $1 AND r.tenant = $2 AND e.seq > $3
ORDER BY e.seq
LIMIT $4;
