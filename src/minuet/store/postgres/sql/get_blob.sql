-- name: get_blob
SELECT data FROM minuet.run_blobs WHERE run = $3 AND ref = $2 AND tenant = $1
UNION ALL
SELECT data FROM minuet.blobs WHERE tenant = $1 AND ref = $2
LIMIT 1;
