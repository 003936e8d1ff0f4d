-- name: insert_dead_letters
INSERT INTO minuet.dead_letters ({dead_letter})
SELECT {dead_letter} FROM unnest($1::minuet.dead_letter_row[]);

-- name: reprocess_dead_letters
UPDATE minuet.dead_letters
SET status = 'reprocessed', settled_ms = $2
WHERE run = ANY ($1) AND status = 'pending';
