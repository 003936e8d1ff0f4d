-- What somebody has set of a token, by the number of its event; dead letters of tokens that are held.

ALTER TABLE tokens ADD COLUMN given INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN edited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letters ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1);
