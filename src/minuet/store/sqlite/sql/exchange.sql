-- name: ready_tokens
-- One branch for each queue: SQLite merges them in order and stops at the limit. Values stand
-- in subqueries because SQLite compiles a query with ORDER BY or LIMIT again whenever a value that
-- it may use for planning is bound, which costs far more than running it.
SELECT {numbered_token}
FROM tokens
WHERE state = 'ready'
    AND lane = ''
    AND tenant = (SELECT :tenant)
    AND queue = (SELECT :queue)
    AND due_ms <= (SELECT :now)

-- name: has_ready
-- Whether anything is ready in any queue. Where nothing is, asking each of many queues costs more.
SELECT EXISTS (
    SELECT 1 FROM tokens WHERE state = 'ready' AND lane = '' AND tenant = (SELECT :tenant)
);

-- name: of_runs
-- One more condition of `ready_tokens`. The index of the queue holds the run, so tokens of others
-- are passed over without reading their rows; "+" keeps SQLite from walking all tokens of the run.
    AND +run IN (SELECT value FROM json_each(:runs))

-- name: take_ready
-- After the branches.
ORDER BY due_ms, run, node, scope
LIMIT (SELECT :limit);

-- name: lease_token
UPDATE tokens
SET state = 'leased', lease = ?, session = ?, due_ms = ?, taken_ms = ?, delivery = delivery + 1
WHERE id = ?;

-- name: lease_tokens
WITH new (lease, session, due_ms, taken_ms, id) AS (VALUES (?, ?, ?, ?, ?))
UPDATE OR FAIL tokens
SET state = 'leased',
    lease = new.lease,
    session = new.session,
    due_ms = new.due_ms,
    taken_ms = new.taken_ms,
    delivery = delivery + 1
FROM new
WHERE tokens.id = new.id;

-- name: still_leased
-- What a repeated call was granted and has not lost since.
SELECT {numbered_token}
FROM tokens
WHERE state = 'leased' AND lease = :lease AND tenant = :tenant
ORDER BY run, node, scope;

-- name: read_outputs
-- The events that hold the outputs of these instances.
SELECT k.key, e.data
FROM json_each(?) AS k
CROSS JOIN tokens AS t
    ON t.run = k.value ->> 0 AND t.node = k.value ->> 1 AND t.scope = k.value ->> 2
CROSS JOIN runs AS r ON r.run = t.run
CROSS JOIN events AS e ON e.run_id = r.id AND e.seq = t.event;

-- name: find_outputs
-- The outputs of these instances: where they are, and how large. Apart from `read_outputs`, because
-- SQLite tells the length of a value without reading it.
SELECT k.key, t.node, t.scope, e.run_id, e.seq, length(e.data)
FROM json_each(?) AS k
CROSS JOIN tokens AS t
    ON t.run = k.value ->> 0 AND t.node = k.value ->> 1 AND t.scope = k.value ->> 2
CROSS JOIN runs AS r ON r.run = t.run
CROSS JOIN events AS e ON e.run_id = r.id AND e.seq = t.event;

-- name: find_arrived
-- The outputs that arrived live at these joins before they fired: where they are, and how large.
SELECT k.key, a.source, a.source_scope, e.run_id, e.seq, length(e.data)
FROM json_each(?) AS k
CROSS JOIN arrivals AS a
    ON a.run = k.value ->> 0 AND a.node = k.value ->> 1 AND a.scope = k.value ->> 2
    AND a.live = 1 AND a.late = 0
CROSS JOIN tokens AS t ON t.run = a.run AND t.node = a.source AND t.scope = a.source_scope
CROSS JOIN runs AS r ON r.run = t.run
CROSS JOIN events AS e ON e.run_id = r.id AND e.seq = t.event
ORDER BY k.key, a.source, a.source_scope;

-- name: find_latest
-- The output of the latest instance of a node under a prefix, of those that had one by an event.
SELECT k.key, t.node, t.scope, e.run_id, e.seq, length(e.data)
FROM json_each(?) AS k
CROSS JOIN tokens AS t ON t.id = (
    SELECT id
    FROM tokens
    WHERE run = k.value ->> 0
        AND node = k.value ->> 1
        AND scope >= k.value ->> 2
        AND scope < (k.value ->> 2) || char(0x10FFFF)
        AND event > 0
        AND (event <= k.value ->> 3 OR k.value ->> 3 = 0)
        AND skip = 0
    ORDER BY scope DESC
    LIMIT 1
)
CROSS JOIN runs AS r ON r.run = t.run
CROSS JOIN events AS e ON e.run_id = r.id AND e.seq = t.event
ORDER BY k.key;

-- name: find_every
-- The outputs of all instances of a node under a prefix, of those that had one by an event; and
-- whether they failed.
SELECT k.key, t.node, t.scope, e.run_id, e.seq, length(e.data), t.outcome = 'failed'
FROM json_each(?) AS k
CROSS JOIN tokens AS t
    ON t.run = k.value ->> 0
    AND t.node = k.value ->> 1
    AND t.scope >= k.value ->> 2
    AND t.scope < (k.value ->> 2) || char(0x10FFFF)
    AND t.event > 0
    AND (t.event <= k.value ->> 3 OR k.value ->> 3 = 0)
    AND t.skip = 0
CROSS JOIN runs AS r ON r.run = t.run
CROSS JOIN events AS e ON e.run_id = r.id AND e.seq = t.event
ORDER BY k.key, t.scope;

-- name: read_found
SELECT e.run_id, e.seq, e.data
FROM json_each(?) AS k
CROSS JOIN events AS e ON e.run_id = k.value ->> 0 AND e.seq = k.value ->> 1;
