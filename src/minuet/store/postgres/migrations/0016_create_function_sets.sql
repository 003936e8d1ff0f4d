-- The sets of functions in this schema (`functions/`). Functions that earlier migrations made are
-- those of processes of earlier versions, which may still run.

CREATE TABLE minuet.function_sets (
    version text PRIMARY KEY,
    created_ms bigint NOT NULL
);
