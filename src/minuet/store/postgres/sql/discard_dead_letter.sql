-- name: discard_dead_letter
UPDATE minuet.dead_letters
SET status = 'discarded'
WHERE run = $1 AND node = $2 AND scope = $3 AND tenant = $4 AND status = 'pending'
RETURNING 1;
