-- name: get_blob
SELECT data FROM run_blobs WHERE run = :run AND ref = :ref AND tenant = :tenant
UNION ALL
SELECT data FROM blobs WHERE tenant = :tenant AND ref = :ref
LIMIT 1;
