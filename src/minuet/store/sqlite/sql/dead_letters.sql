-- name: insert_dead_letter
INSERT INTO dead_letters ({dead_letter})
VALUES ({? dead_letter});

-- name: reprocess_dead_letters
UPDATE dead_letters
SET status = 'reprocessed', settled_ms = :now
WHERE run = :run AND status = 'pending';
