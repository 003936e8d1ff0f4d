-- What a transition loads and writes back. Values are bound by position, in the order of the
-- record's fields: these run once for every token that moves.

-- name: load_runs
SELECT r.*
FROM json_each(?) AS k CROSS JOIN runs AS r ON r.run = k.value;

-- name: load_tokens
SELECT t.*
FROM json_each(?) AS k
CROSS JOIN tokens AS t
    ON t.run = k.value ->> 0 AND t.node = k.value ->> 1 AND t.scope = k.value ->> 2;

-- name: load_joins
SELECT j.*
FROM json_each(?) AS k
CROSS JOIN joins AS j
    ON j.run = k.value ->> 0 AND j.node = k.value ->> 1 AND j.scope = k.value ->> 2;

-- name: load_arrivals
SELECT a.run, a.node, a.scope, a.source
FROM json_each(?) AS k
CROSS JOIN arrivals AS a
    ON a.run = k.value ->> 0
    AND a.node = k.value ->> 1
    AND a.scope = k.value ->> 2
    AND a.source = k.value ->> 3;

-- name: has_token
SELECT 1 FROM tokens WHERE run = ? AND node = ? AND scope = ?;

-- name: tokens_of_run
SELECT * FROM tokens WHERE run = ? AND state IN (SELECT value FROM json_each(?));

-- name: slot_waiters
SELECT *
FROM tokens
WHERE tenant = ? AND slot = ? AND slot <> '' AND state = 'ready' AND lane = 'slot'
ORDER BY due_ms, run, node, scope;

-- name: slot_holders
SELECT count(*) FROM tokens WHERE tenant = ? AND slot = ? AND slot <> '' AND lane <> 'slot';

-- name: load_event
SELECT e.data
FROM runs AS r
JOIN events AS e ON e.run_id = r.id
WHERE r.run = ? AND e.seq = ?;

-- name: load_step
SELECT value FROM steps WHERE run = ? AND node = ? AND scope = ? AND name = ?;

-- name: last_run_id
SELECT coalesce(max(id), 0) FROM runs;

-- name: insert_run
INSERT INTO runs
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: advance_run
UPDATE runs SET counter = ?, seq = ? WHERE id = ?;

-- name: update_run
UPDATE runs
SET plan = ?, status = ?, counter = ?, seq = ?, generation = ?, input = ?, started_ms = ?,
    ended_ms = ?, deadline_ms = ?, error = ?, dead_letters = ?
WHERE id = ?;

-- name: last_token_id
SELECT coalesce(max(id), 0) FROM tokens;

-- name: insert_token
INSERT INTO tokens
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_token
UPDATE tokens
SET state = ?, outcome = ?, due_ms = ?, attempt = ?, expiry = ?, lease = ?, cursor = ?, wait = ?,
    wait_key = ?, resolution = ?, event = ?, lane = ?, slot = ?, slot_limit = ?,
    lost = ?
WHERE id = ?;

-- name: write_join
INSERT INTO joins
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, node, scope) DO UPDATE
SET live = excluded.live, skipped = excluded.skipped, fired = excluded.fired, hop = excluded.hop;

-- name: insert_arrival
INSERT INTO arrivals VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: insert_event
INSERT INTO events VALUES (?, ?, ?, ?);

-- name: insert_step
INSERT INTO steps VALUES (?, ?, ?, ?, ?);

-- name: insert_dead_letter
INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: reprocess_dead_letters
UPDATE dead_letters
SET status = 'reprocessed'
WHERE run = ? AND status = 'pending';
