-- name: delete_blobs
WITH doomed AS (
    DELETE FROM minuet.blobs AS b
    USING unnest($2::text[], $3::bigint[]) AS listed (ref, touched_ms)
    WHERE b.tenant = $1 AND b.ref = listed.ref AND b.touched_ms = listed.touched_ms
    RETURNING 1
)
SELECT count(*) FROM doomed;
