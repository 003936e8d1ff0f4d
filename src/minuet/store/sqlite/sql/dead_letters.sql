-- name: insert_dead_letter
INSERT OR REPLACE INTO dead_letters ({dead_letter})
VALUES ({? dead_letter});

-- name: reprocess_dead_letters
UPDATE dead_letters
SET status = 'reprocessed', settled_ms = :now
WHERE run = :run AND status = 'pending';

-- name: settle_dead_letter
UPDATE dead_letters
SET status = ?, settled_ms = ?, why = ?
WHERE run = ? AND node = ? AND scope = ? AND generation = ? AND status = 'pending';
