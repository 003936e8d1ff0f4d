-- name: deletable_runs
SELECT r.run
FROM json_each(:runs) AS k CROSS JOIN runs AS r ON r.run = k.value
LEFT JOIN runs AS p ON p.run = r.parent AND p.ended_ms IS NULL
WHERE r.tenant = :tenant AND r.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
    AND r.unreported = 0 AND p.run IS NULL;

-- name: remove_rows
-- Also before a run is put in the place of another.
DELETE FROM tokens WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM joins WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM arrivals WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM steps WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM signals WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM dead_letters WHERE run IN (SELECT value FROM json_each(:runs));

-- name: delete_runs
-- The newest row of all is never deleted: otherwise the next event would get its id, and a reader of
-- the feed that has seen it would miss that event.
INSERT OR REPLACE INTO events (run_id, seq, at_ms, data) VALUES (0, 1, 0, x'');
DELETE FROM events
WHERE run_id IN (SELECT r.id FROM json_each(:runs) AS k CROSS JOIN runs AS r ON r.run = k.value);
DELETE FROM runs WHERE run IN (SELECT value FROM json_each(:runs));
