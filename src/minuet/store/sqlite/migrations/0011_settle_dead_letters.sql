-- Dead letters say of which workflow they are, when they were reprocessed or discarded, and why.

ALTER TABLE dead_letters ADD COLUMN workflow TEXT NOT NULL DEFAULT '';
ALTER TABLE dead_letters ADD COLUMN settled_ms INTEGER;
ALTER TABLE dead_letters ADD COLUMN why TEXT NOT NULL DEFAULT '';
