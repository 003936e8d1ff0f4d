-- name: insert_dead_letters
INSERT INTO minuet.dead_letters ({dead_letter})
SELECT {dead_letter} FROM unnest($1::minuet.dead_letter_row[])
ON CONFLICT (run, node, scope, generation) DO UPDATE
SET {dead_letter = excluded};

-- name: settle_dead_letter
UPDATE minuet.dead_letters
SET status = $5, settled_ms = $6, why = $7
WHERE run = $1 AND node = $2 AND scope = $3 AND generation = $4 AND status = 'pending';

-- name: reprocess_dead_letters
UPDATE minuet.dead_letters
SET status = 'reprocessed', settled_ms = $2
WHERE run = ANY ($1) AND status = 'pending';
