-- name: discard_dead_letter
UPDATE minuet.dead_letters
SET status = 'discarded', settled_ms = coalesce($4::bigint, minuet.now_ms()), why = $5
WHERE run = $1 AND generation = $2 AND tenant = $3 AND status = 'pending'
RETURNING 1;
