-- The record: events of runs that are executed in another store.
--
-- What is compared with a column that has an index does not change while a statement runs, and is of
-- the column's type: otherwise the index would not be used.

-- name: make_record_identity
INSERT INTO minuet.record_identity DEFAULT VALUES ON CONFLICT DO NOTHING;

-- name: record_identity
SELECT identity FROM minuet.record_identity;

-- name: submit_runs
WITH made_again AS (DELETE FROM minuet.record_deleted WHERE run = ANY ($1::text[]))
INSERT INTO minuet.record_runs
    (run, tenant, workflow, status, seq, hash, state, input, content, idempotency_key, submission,
     submitted_ms)
SELECT run, tenant, workflow, 'PENDING', 0, $7, '', '', content, idempotency_key, submission,
    floor(extract(epoch FROM clock_timestamp()) * 1000)
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[], $6::bytea[])
    WITH ORDINALITY AS new (run, tenant, workflow, content, idempotency_key, submission, place)
-- In one order for all callers, so that none waits for another that waits for it.
ORDER BY tenant, idempotency_key, place
ON CONFLICT DO NOTHING;

-- name: find_submitted
SELECT place, r.run, r.tenant, r.workflow, r.status::text, r.seq, r.state, r.input, r.content, r.submission
FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY
    AS new (run, tenant, idempotency_key, place)
JOIN minuet.record_runs AS r
    ON r.run = new.run
    OR (r.tenant = new.tenant AND r.idempotency_key = new.idempotency_key)
ORDER BY place, r.run <> new.run;

-- name: list_submitted
SELECT submission
FROM minuet.record_runs
WHERE submission IS NOT NULL
    AND submitted_ms <= floor(extract(epoch FROM clock_timestamp()) * 1000) - $1::bigint
ORDER BY submitted_ms, run
LIMIT $2;

-- name: find_record_deleted
SELECT run FROM minuet.record_deleted WHERE run = ANY ($1::text[]);

-- name: lock_record_runs
SELECT run, seq, hash FROM minuet.record_runs WHERE run = ANY ($1::text[]) ORDER BY run FOR UPDATE;

-- name: record_events_after
SELECT e.run, e.seq, e.at_ms, e.data
FROM unnest($1::text[], $2::integer[]) AS wanted (run, after)
JOIN minuet.record_events AS e ON e.run = wanted.run AND e.seq > wanted.after
ORDER BY e.run, e.seq;

-- name: append_record
WITH added AS (
    INSERT INTO minuet.record_events (run, seq, at_ms, data, hash)
    SELECT * FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bytea[], $5::bytea[])
)
INSERT INTO minuet.record_runs AS known
    (run, tenant, workflow, status, seq, hash, state, input, content, idempotency_key,
     submitted_ms, ended_ms)
SELECT run, tenant, workflow, status::minuet.run_status, seq, hash, state, coalesce(input, ''),
    content, idempotency_key, created_ms, ended_ms
FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::integer[], $11::bytea[],
        $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bigint[], $17::bigint[])
    AS new (run, tenant, workflow, status, seq, hash, state, input, content, idempotency_key,
        created_ms, ended_ms)
ON CONFLICT (run) DO UPDATE
SET workflow = EXCLUDED.workflow, status = EXCLUDED.status, seq = EXCLUDED.seq,
    hash = EXCLUDED.hash, state = EXCLUDED.state,
    input = CASE WHEN EXCLUDED.input = '' THEN known.input ELSE EXCLUDED.input END,
    submission = NULL, ended_ms = EXCLUDED.ended_ms;

-- name: continue_record
WITH durable AS (SELECT set_config('synchronous_commit', $1, true)),
moved AS (
    UPDATE minuet.record_runs AS known
    SET workflow = new.workflow, status = new.status::minuet.run_status, seq = new.seq,
        hash = new.hash, state = new.state, ended_ms = new.ended_ms
    FROM unnest($7::text[], $8::integer[], $9::bytea[], $10::text[], $11::text[], $12::integer[],
            $13::bytea[], $14::bytea[], $15::bigint[])
        AS new (run, before_seq, before_hash, workflow, status, seq, hash, state, ended_ms)
    WHERE known.run = new.run AND known.seq = new.before_seq AND known.hash = new.before_hash
    RETURNING known.run
),
added AS (
    INSERT INTO minuet.record_events (run, seq, at_ms, data, hash)
    SELECT e.*
    FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::bytea[], $6::bytea[])
        AS e (run, seq, at_ms, data, hash)
    JOIN moved USING (run)
)
SELECT run FROM moved, durable;

-- name: find_record_key
SELECT run FROM minuet.record_runs WHERE tenant = $1 AND idempotency_key = $2;

-- name: read_record_runs
SELECT seq, state, input, run, tenant, workflow, status::text
FROM minuet.record_runs WHERE run = ANY ($1::text[]) AND seq > 0;

-- name: list_logged
(SELECT tenant, run, seq, status::text, state FROM minuet.record_runs
 WHERE ended_ms IS NULL AND run > $1 AND seq > 0 ORDER BY run LIMIT $3)
UNION ALL
(SELECT tenant, run, seq, status::text, state FROM minuet.record_runs
 WHERE ended_ms >= floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint - $2::bigint
    AND run > $1
 ORDER BY run LIMIT $3)
ORDER BY run
LIMIT $3;

-- name: read_submitted
SELECT submission FROM minuet.record_runs WHERE run = $1;

-- name: list_record_deleted
SELECT tenant, run
FROM minuet.record_deleted
WHERE deleted_at >= statement_timestamp() - $1 * interval '1 millisecond'
ORDER BY deleted_at DESC
LIMIT $2;

-- name: claim_comparison
INSERT INTO minuet.record_check AS known (identity, owner, claimed_until)
VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (is_only) DO UPDATE
SET identity = EXCLUDED.identity, owner = EXCLUDED.owner, claimed_until = EXCLUDED.claimed_until,
    epoch = known.epoch + (known.identity <> EXCLUDED.identity)::integer, done = false
WHERE known.identity <> EXCLUDED.identity
    OR (NOT known.done
        AND (known.owner = EXCLUDED.owner OR known.claimed_until < clock_timestamp()))
RETURNING epoch;

-- name: find_comparison
SELECT done FROM minuet.record_check WHERE identity = $1;

-- name: finish_comparison
UPDATE minuet.record_check SET done = true WHERE identity = $1;

-- name: release_comparison
UPDATE minuet.record_check SET claimed_until = '-infinity'
WHERE identity = $1 AND owner = $2 AND NOT done;

-- name: read_record_run
SELECT seq, state, input, run, tenant, workflow, status::text
FROM minuet.record_runs WHERE tenant = $1 AND run = $2 AND seq > 0;

-- name: list_record_runs
SELECT seq, state, input, run, tenant, workflow, status::text
FROM minuet.record_runs
WHERE tenant = $1
    AND seq > 0
    AND ($2::text[] IS NULL OR status = ANY ($2::minuet.run_status[]))
    AND ($3::text IS NULL OR workflow = $3)
    AND ($4::text IS NULL OR run < $4)
ORDER BY run DESC
LIMIT $5;

-- name: list_record_tenants
-- Stepping from one to the next in the index: their runs are not read.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM minuet.record_runs WHERE seq > 0 ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT r.tenant
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT tenant FROM minuet.record_runs
        WHERE tenant > f.tenant AND seq > 0 ORDER BY tenant LIMIT 1
    ) AS r
)
SELECT tenant FROM found;

-- name: read_record_events
SELECT e.run, e.seq, e.at_ms, e.data, e.hash
FROM minuet.record_events AS e
JOIN minuet.record_runs AS r ON r.run = e.run
WHERE r.tenant = $1 AND e.run = $2 AND e.seq > $3
ORDER BY e.seq
LIMIT $4;

-- name: list_record_outdated
SELECT tenant, run
FROM minuet.record_runs
WHERE ended_ms IS NOT NULL AND ended_ms <= coalesce($1::bigint, minuet.now_ms()) - $2
ORDER BY ended_ms
LIMIT $3;

-- name: delete_record_runs
-- They are locked by now, so no blob of theirs comes after it.
WITH doomed AS (
    DELETE FROM minuet.record_runs
    WHERE tenant = $1 AND run = ANY ($2::text[]) AND ended_ms IS NOT NULL
    RETURNING run, tenant
), events AS (
    DELETE FROM minuet.record_events USING doomed WHERE record_events.run = doomed.run
), blobs AS (
    DELETE FROM minuet.record_blobs USING doomed WHERE record_blobs.run = doomed.run
), remembered AS (
    INSERT INTO minuet.record_deleted (run, tenant) SELECT run, tenant FROM doomed
    ON CONFLICT DO NOTHING
), forgotten AS (
    DELETE FROM minuet.record_deleted
    WHERE deleted_at < statement_timestamp() - interval '30 days'
)
SELECT count(*) FROM doomed;

-- name: forget_record_run
WITH doomed AS (DELETE FROM minuet.record_runs WHERE run = $1),
    remembered AS (DELETE FROM minuet.record_deleted WHERE run = $1)
DELETE FROM minuet.record_events WHERE run = $1;

-- name: put_record_blob
WITH owner AS MATERIALIZED (
    SELECT run, tenant FROM minuet.record_runs WHERE run = $1 AND tenant = $3 FOR KEY SHARE
), kept AS (
    INSERT INTO minuet.record_blobs (run, ref, tenant, data) SELECT run, $2, tenant, $4 FROM owner
    ON CONFLICT DO NOTHING
)
SELECT run FROM owner;

-- name: get_record_blob
SELECT data FROM minuet.record_blobs WHERE run = $3 AND ref = $2 AND tenant = $1
UNION ALL
SELECT data FROM minuet.blobs WHERE tenant = $1 AND ref = $2
LIMIT 1;
