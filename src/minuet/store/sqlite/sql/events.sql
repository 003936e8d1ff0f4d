-- name: load_event
SELECT e.data
FROM runs AS r
JOIN events AS e ON e.run_id = r.id
WHERE r.run = ? AND e.seq = ?;

-- name: insert_event
INSERT OR FAIL INTO events ({numbered_event}) VALUES ({? numbered_event});
