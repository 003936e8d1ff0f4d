-- Runs with events that people outside may want to know of, and cells: what belongs to no run, such as
-- what has to be sent to them.

ALTER TABLE minuet.runs ADD COLUMN notable integer NOT NULL DEFAULT 0;

CREATE INDEX runs_notable ON minuet.runs (run) WHERE notable > 0;

CREATE TABLE minuet.cells (
    name text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL
);
