-- Events have the order of their row ids, because one connection writes at a time.

-- name: read_feed
SELECT e.rowid, e.run_id, r.tenant, r.workflow, r.run, {e.event}
FROM events AS e CROSS JOIN runs AS r ON r.id = e.run_id
WHERE e.rowid > ?
ORDER BY e.rowid
LIMIT ?;

-- name: feed_end
SELECT rowid, run_id, seq FROM events ORDER BY rowid DESC LIMIT 1;

-- name: feed_place
SELECT run_id, seq FROM events WHERE rowid = ?;
