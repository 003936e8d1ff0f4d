-- Rows of `runs` that several verbs load and write. Values are bound by position: these run once for
-- every run that moves.

-- name: load_runs
SELECT {r.numbered_run}
FROM json_each(?) AS k CROSS JOIN runs AS r ON r.run = k.value;

-- name: find_by_idempotency_key
SELECT {r.numbered_run}
FROM json_each(?) AS k
CROSS JOIN runs AS r ON r.tenant = k.value ->> 0 AND r.idempotency_key = k.value ->> 1;

-- name: last_run_id
SELECT coalesce(max(id), 0) FROM runs;

-- name: insert_run
INSERT OR FAIL INTO runs ({numbered_run})
VALUES ({? numbered_run});

-- name: advance_run
UPDATE runs SET counter = ?, seq = ? WHERE id = ?;

-- name: advance_runs
WITH new (counter, seq, id) AS (VALUES (?, ?, ?))
UPDATE OR FAIL runs
SET counter = new.counter, seq = new.seq
FROM new
WHERE runs.id = new.id;

-- name: update_run
UPDATE runs
SET {run_change = ?}
WHERE id = ?;

-- name: update_runs
WITH new ({run_change}, id) AS (VALUES ({? run_change}, ?))
UPDATE OR FAIL runs
SET {run_change = new}
FROM new
WHERE runs.id = new.id;
