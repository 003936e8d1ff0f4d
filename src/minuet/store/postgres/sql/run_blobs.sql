-- Blobs that belong to a run.

-- name: find_run_blobs
SELECT run, ref
FROM unnest($1::text[], $2::text[]) AS wanted (run, ref) JOIN minuet.run_blobs USING (run, ref);

-- name: put_run_blob
-- A call that removes the run waits for this, or this for it: no blob is left behind.
WITH owner AS MATERIALIZED (
    SELECT run, tenant FROM minuet.runs WHERE run = $1 AND tenant = $3 FOR KEY SHARE
), kept AS (
    INSERT INTO minuet.run_blobs (run, ref, tenant, data) SELECT run, $2, tenant, $4 FROM owner
    ON CONFLICT DO NOTHING
)
SELECT run FROM owner;

-- name: insert_run_blob
INSERT INTO minuet.run_blobs (run, ref, tenant, data) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;
