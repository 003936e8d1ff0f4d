-- name: list_blobs
SELECT ref, touched_ms
FROM blobs
WHERE tenant = :tenant AND ref > :after AND touched_ms <= :before
ORDER BY ref
LIMIT :limit;
