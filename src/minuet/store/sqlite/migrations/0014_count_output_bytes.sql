-- How many bytes the outputs of a run have, where that is limited.

ALTER TABLE runs ADD COLUMN output_bytes INTEGER NOT NULL DEFAULT 0;
