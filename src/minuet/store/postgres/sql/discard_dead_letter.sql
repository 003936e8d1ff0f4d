-- name: discard_dead_letter
UPDATE minuet.dead_letters
SET status = 'discarded', settled_ms = coalesce($4::bigint, minuet.now_ms()), why = $5
WHERE run = $1 AND generation = $2 AND tenant = $3 AND status = 'pending'
    AND CASE WHEN $6::text IS NULL THEN NOT held AND node NOT LIKE '%$undo'
        ELSE node = $6 AND scope = $7::text END
RETURNING 1;
