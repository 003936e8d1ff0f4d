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
DELETE FROM events
WHERE run_id IN (SELECT r.id FROM json_each(:runs) AS k CROSS JOIN runs AS r ON r.run = k.value);
DELETE FROM runs WHERE run IN (SELECT value FROM json_each(:runs));
