-- name: find_queues
-- Found by stepping from one queue to the next in the index of ready tokens.
WITH RECURSIVE queues (queue) AS (
    SELECT * FROM (
        SELECT queue
        FROM tokens
        WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue > :after
            AND queue >= :prefix AND queue < :end
        ORDER BY queue
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue
        FROM tokens
        WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue > q.queue
            AND queue < :end
        ORDER BY queue
        LIMIT 1
    )
    FROM queues AS q
    WHERE q.queue IS NOT NULL
)
SELECT queue FROM queues WHERE queue IS NOT NULL LIMIT :limit;
