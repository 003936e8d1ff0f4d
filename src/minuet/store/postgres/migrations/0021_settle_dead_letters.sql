-- Dead letters say of which workflow they are, when they were reprocessed or discarded, and why.

ALTER TABLE minuet.dead_letters
    ADD COLUMN workflow text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN settled_ms bigint,
    ADD COLUMN why bytea NOT NULL DEFAULT '';
