-- name: next_work
-- How long until the oldest token in these queues may be taken; NULL: there is none. $4: the
-- runs that it must belong to; NULL: any.
SELECT min(t.due_ms) - coalesce($3::bigint, minuet.now_ms())
FROM unnest($2::text[]) AS q (queue)
CROSS JOIN LATERAL (
    SELECT due_ms
    FROM minuet.tokens
    WHERE state = 'ready' AND lane = '' AND tenant = $1 AND queue = q.queue
        AND ($4::text[] IS NULL OR run = ANY ($4::text[]))
    ORDER BY due_ms
    LIMIT 1
) AS t;

-- name: notify
-- Only a hint: it need not be durable, and must not wait for a disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2);
