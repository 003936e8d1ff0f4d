-- name: discard_dead_letter
UPDATE dead_letters
SET status = 'discarded', settled_ms = :now, why = :why
WHERE run = :run AND generation = :generation AND tenant = :tenant AND status = 'pending'
RETURNING 1;
