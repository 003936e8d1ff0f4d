-- What somebody has set of a token, by the number of its event; dead letters of tokens that are held.

ALTER TABLE minuet.tokens
    ADD COLUMN given integer NOT NULL DEFAULT 0,
    ADD COLUMN edited integer NOT NULL DEFAULT 0;
ALTER TABLE minuet.dead_letters ADD COLUMN held boolean NOT NULL DEFAULT false;
