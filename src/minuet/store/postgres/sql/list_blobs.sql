-- name: list_blobs
SELECT ref, touched_ms
FROM minuet.blobs
WHERE tenant = $1 AND ref > $2 AND touched_ms <= coalesce($3::bigint, minuet.now_ms()) - $4::bigint
ORDER BY ref
LIMIT $5;
