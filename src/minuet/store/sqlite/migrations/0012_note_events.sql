-- Runs with events that people outside may want to know of, and cells: what belongs to no run, such as
-- what has to be sent to them.

ALTER TABLE runs ADD COLUMN notable INTEGER NOT NULL DEFAULT 0;

CREATE INDEX runs_notable ON runs (run) WHERE notable > 0;

CREATE TABLE cells (
    name TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
