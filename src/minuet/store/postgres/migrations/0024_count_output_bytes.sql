-- How many bytes the outputs of a run have, where that is limited.

ALTER TABLE minuet.runs ADD COLUMN output_bytes bigint NOT NULL DEFAULT 0;
