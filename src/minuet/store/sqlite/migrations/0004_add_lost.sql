-- Leases of a token that expired, as a JSON array; '' when there is none.

ALTER TABLE tokens ADD COLUMN lost TEXT NOT NULL DEFAULT '';
