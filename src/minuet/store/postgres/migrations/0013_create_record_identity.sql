-- Which record this is: a hot store remembers it, and refuses another one. One row, made by the first
-- who asks, so that a record that somebody has emptied is another one.
CREATE TABLE minuet.record_identity (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    identity text NOT NULL DEFAULT gen_random_uuid()::text
);
