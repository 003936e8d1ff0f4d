-- Leases of a token that expired, as a JSON array; NULL when there is none.

ALTER TABLE minuet.tokens ADD COLUMN lost text;
