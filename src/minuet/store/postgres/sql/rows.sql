-- What a transition loads and writes back; the functions are in `migrations`.

-- name: load_rows
SELECT * FROM minuet.load_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: write_rows
SELECT *
FROM minuet.write_rows(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17
);

-- name: settle_rows
SELECT *
FROM minuet.settle_rows(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15
);

-- name: load_step
SELECT value FROM minuet.steps WHERE run = $1 AND node = $2 AND scope = $3 AND name = $4;

-- name: load_first_events
SELECT r.run, e.data
FROM minuet.runs AS r
JOIN minuet.events AS e ON e.run_id = r.id AND e.seq = 1
WHERE r.run = ANY ($1);

-- name: insert_runs
-- In the order of their names: whoever inserts the same ones waits and does not lock up.
INSERT INTO minuet.runs (
    run, tenant, workflow, plan, status, counter, seq, generation, input, tags, idempotency_key,
    created_ms, started_ms, ended_ms, deadline_ms, error, dead_letters, parent
)
SELECT run, tenant, workflow, plan, status, counter, seq, generation, input, tags,
    idempotency_key, created_ms, started_ms, ended_ms, deadline_ms, error, dead_letters, parent
FROM unnest($1::minuet.runs[])
ORDER BY run
RETURNING run, id;

-- name: write_lost
UPDATE minuet.tokens AS t
SET lost = x.lost
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS x (run, node, scope, lost)
WHERE t.run = x.run AND t.node = x.node AND t.scope = x.scope;

-- name: insert_step
INSERT INTO minuet.steps VALUES ($1, $2, $3, $4, $5);

-- name: insert_dead_letters
INSERT INTO minuet.dead_letters SELECT * FROM unnest($1::minuet.dead_letters[]);

-- name: reprocess_dead_letters
UPDATE minuet.dead_letters
SET status = 'reprocessed'
WHERE run = ANY ($1) AND status = 'pending';

-- name: load_headers
SELECT * FROM minuet.runs WHERE tenant = $1 AND run = ANY ($2);

-- name: still_leased
SELECT * FROM minuet.leased_rows($1, $2);
