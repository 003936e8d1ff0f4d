-- name: find_by_idempotency_key
SELECT r.*
FROM json_each(?) AS k
CROSS JOIN runs AS r ON r.tenant = k.value ->> 0 AND r.idempotency_key = k.value ->> 1;

-- name: deletable_runs
SELECT r.run
FROM json_each(:runs) AS k CROSS JOIN runs AS r ON r.run = k.value
WHERE r.tenant = :tenant AND r.status IN ('COMPLETED', 'FAILED', 'CANCELLED');

-- name: delete_runs
DELETE FROM events
WHERE run_id IN (SELECT r.id FROM json_each(:runs) AS k CROSS JOIN runs AS r ON r.run = k.value);
DELETE FROM runs WHERE run IN (SELECT value FROM json_each(:runs));

-- name: remove_blobs
DELETE FROM run_blobs WHERE run IN (SELECT value FROM json_each(:runs));

-- name: remove_rows
DELETE FROM tokens WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM joins WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM arrivals WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM steps WHERE run IN (SELECT value FROM json_each(:runs));
DELETE FROM dead_letters WHERE run IN (SELECT value FROM json_each(:runs));

-- name: discard_dead_letter
UPDATE dead_letters
SET status = 'discarded'
WHERE run = :run AND node = :node AND scope = :scope AND tenant = :tenant AND status = 'pending'
RETURNING 1;

-- name: has_blob
SELECT 1 FROM run_blobs WHERE run = ? AND ref = ?;

-- name: put_run_blob
INSERT INTO run_blobs (run, ref, tenant, data) VALUES (:run, :ref, :tenant, :data)
ON CONFLICT DO NOTHING;
