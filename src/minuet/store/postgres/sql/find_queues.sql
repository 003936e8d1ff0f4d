-- name: find_queues
-- Found by stepping from one queue to the next in the index of ready tokens.
WITH RECURSIVE queues (queue) AS (
    (
        SELECT queue
        FROM minuet.tokens
        WHERE state = 'ready' AND lane = '' AND tenant = $1 AND queue > $4
            AND queue >= $2 AND queue < $3
        ORDER BY queue
        LIMIT 1
    )
    UNION ALL
    SELECT t.queue
    FROM queues AS q
    CROSS JOIN LATERAL (
        SELECT queue
        FROM minuet.tokens
        WHERE state = 'ready' AND lane = '' AND tenant = $1 AND queue > q.queue AND queue < $3
        ORDER BY queue
        LIMIT 1
    ) AS t
)
SELECT queue FROM queues LIMIT $5;
