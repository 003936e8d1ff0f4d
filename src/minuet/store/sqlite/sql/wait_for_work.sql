-- name: has_work
-- :runs: these only, as JSON; NULL: any. With "+", the queue's index is walked and not the run's.
SELECT 1
FROM json_each(:queues) AS q
WHERE EXISTS (
    SELECT 1
    FROM tokens
    WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue = q.value
        AND due_ms <= :now
        AND (:runs IS NULL OR +run IN (SELECT value FROM json_each(:runs)))
)
LIMIT 1;
