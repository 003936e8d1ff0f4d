-- Rows of `tokens` that several verbs load and write. Values are bound by position: these run once
-- for every token that moves.

-- name: load_tokens
SELECT {t.numbered_token}
FROM json_each(?) AS k
CROSS JOIN tokens AS t
    ON t.run = k.value ->> 0 AND t.node = k.value ->> 1 AND t.scope = k.value ->> 2;

-- name: has_token
SELECT 1 FROM tokens WHERE run = ? AND node = ? AND scope = ?;

-- name: tokens_of_run
SELECT {numbered_token} FROM tokens WHERE run = ? AND state IN (SELECT value FROM json_each(?));

-- name: slot_waiters
SELECT {numbered_token}
FROM tokens
WHERE tenant = ? AND slot = ? AND slot <> '' AND state = 'ready' AND lane = 'slot'
ORDER BY due_ms, run, node, scope;

-- name: slot_holders
SELECT count(*) FROM tokens WHERE tenant = ? AND slot = ? AND slot <> '' AND lane <> 'slot';

-- name: last_token_id
SELECT coalesce(max(id), 0) FROM tokens;

-- name: insert_token
INSERT OR FAIL INTO tokens ({numbered_token})
VALUES ({? numbered_token});

-- name: begin_token
-- The same of a token that begins: it has its defaults in most columns.
INSERT OR FAIL INTO tokens ({numbered_token})
VALUES ({begun_values});

-- name: update_token
UPDATE tokens
SET {token_change = ?}
WHERE id = ?;

-- name: settle_token
-- The same after an ordinary result: naming few columns, it leaves most indexes alone.
UPDATE tokens
SET state = 'done', outcome = ?, due_ms = NULL, event = ?
WHERE id = ?;

-- name: settle_tokens
WITH new (outcome, event, id) AS (VALUES (?, ?, ?))
UPDATE OR FAIL tokens
SET state = 'done', outcome = new.outcome, due_ms = NULL, event = new.event
FROM new
WHERE tokens.id = new.id;

-- name: repair_token
UPDATE tokens
SET {token_repair = ?}
WHERE id = ?;
