-- name: list_queues
SELECT tenant, queue, sum(ready), sum(leased), min(oldest)
FROM (
    SELECT tenant, queue, count(*) AS ready, 0 AS leased, min(due_ms) AS oldest
    FROM tokens
    WHERE state = 'ready' AND lane = ''
    GROUP BY tenant, queue
    UNION ALL
    SELECT tenant, queue, count(*), 0, min(due_ms)
    FROM tokens
    WHERE lane <> '' AND state = 'ready'
    GROUP BY tenant, queue
    UNION ALL
    SELECT tenant, queue, 0, count(*), NULL
    FROM tokens
    WHERE state = 'leased'
    GROUP BY tenant, queue
)
GROUP BY tenant, queue
ORDER BY tenant, queue;
