-- name: discard_dead_letter
UPDATE dead_letters
SET status = 'discarded'
WHERE run = :run AND node = :node AND scope = :scope AND tenant = :tenant AND status = 'pending'
RETURNING 1;
