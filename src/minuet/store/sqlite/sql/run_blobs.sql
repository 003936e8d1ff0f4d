-- Blobs that belong to a run.

-- name: has_blob
SELECT 1 FROM run_blobs WHERE run = ? AND ref = ?;

-- name: put_run_blob
INSERT INTO run_blobs (run, ref, tenant, data) VALUES (:run, :ref, :tenant, :data)
ON CONFLICT DO NOTHING;

-- name: remove_blobs
DELETE FROM run_blobs WHERE run IN (SELECT value FROM json_each(:runs));
