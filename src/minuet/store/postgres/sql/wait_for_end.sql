-- name: find_ended
SELECT run FROM minuet.runs
WHERE run = ANY($1::text[]) AND status IN ('COMPLETED', 'FAILED', 'CANCELLED');
