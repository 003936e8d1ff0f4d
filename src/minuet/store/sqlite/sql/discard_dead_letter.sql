-- name: discard_dead_letter
UPDATE dead_letters
SET status = 'discarded', settled_ms = :now, why = :why
WHERE run = :run AND generation = :generation AND tenant = :tenant AND status = 'pending'
    AND CASE WHEN :node IS NULL THEN held = 0 AND node NOT LIKE '%$undo'
        ELSE node = :node AND scope = :scope END
RETURNING 1;
