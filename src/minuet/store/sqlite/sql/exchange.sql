-- name: read_sessions
-- The last call of each of these sessions.
SELECT s.tenant, s.session, s.seq, s.lease, s.answer
FROM json_each(?) AS k
JOIN sessions AS s ON s.tenant = k.value ->> 0 AND s.session = k.value ->> 1;

-- name: write_session
INSERT INTO sessions (tenant, session, seq, lease, answer, at_ms)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, session) DO UPDATE
SET seq = excluded.seq, lease = excluded.lease, answer = excluded.answer, at_ms = excluded.at_ms;

-- name: ready_tokens
-- One branch for each queue: SQLite merges them in order and stops at the limit.
SELECT id, due_ms, run, node, scope
FROM tokens
WHERE state = 'ready' AND lane = '' AND tenant = :tenant AND queue = {queue} AND due_ms <= :now

-- name: take_ready
WITH chosen AS MATERIALIZED (
    {branches}
    ORDER BY due_ms, run, node, scope
    LIMIT :limit
)
SELECT t.*
FROM chosen AS c CROSS JOIN tokens AS t ON t.id = c.id
ORDER BY c.due_ms, c.run, c.node, c.scope;

-- name: lease_tokens
UPDATE tokens
SET state = 'leased', lease = :lease, session = :session, due_ms = :until, taken_ms = :now,
    delivery = delivery + 1
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: read_outputs
-- The events that hold the outputs of these instances.
SELECT k.key, e.data
FROM json_each(?) AS k
CROSS JOIN tokens AS t
    ON t.run = k.value ->> 0 AND t.node = k.value ->> 1 AND t.scope = k.value ->> 2
CROSS JOIN events AS e ON e.run = t.run AND e.seq = t.event;

-- name: read_arrived
-- The outputs that arrived live at these joins.
SELECT k.key, a.source, a.source_scope, e.data
FROM json_each(?) AS k
CROSS JOIN arrivals AS a
    ON a.run = k.value ->> 0 AND a.node = k.value ->> 1 AND a.scope = k.value ->> 2 AND a.live = 1
CROSS JOIN tokens AS t ON t.run = a.run AND t.node = a.source AND t.scope = a.source_scope
CROSS JOIN events AS e ON e.run = t.run AND e.seq = t.event
ORDER BY k.key, a.source, a.source_scope;

-- name: read_latest
-- The output of the latest instance of a node under a prefix.
SELECT k.key, t.node, t.scope, e.data
FROM json_each(?) AS k
CROSS JOIN tokens AS t ON t.id = (
    SELECT id
    FROM tokens
    WHERE run = k.value ->> 0
        AND node = k.value ->> 1
        AND scope >= k.value ->> 2
        AND scope < (k.value ->> 2) || char(0x10FFFF)
        AND event > 0
        AND skip = 0
    ORDER BY scope DESC
    LIMIT 1
)
CROSS JOIN events AS e ON e.run = t.run AND e.seq = t.event;

-- name: end_session
DELETE FROM sessions WHERE session = :session;

-- name: forget_sessions
DELETE FROM sessions WHERE at_ms < :before;
