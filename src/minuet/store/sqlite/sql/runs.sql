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
INSERT INTO runs ({numbered_run})
VALUES ({? numbered_run});

-- name: advance_run
UPDATE runs SET counter = ?, seq = ? WHERE id = ?;

-- name: update_run
UPDATE runs
SET {run_change = ?}
WHERE id = ?;
