-- Child runs: which node instance has started a run, how deep it is, how often it has started a child
-- run, and whether its relatives have to learn of something.

ALTER TABLE runs ADD COLUMN parent_node TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent_scope TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN children INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN unreported INTEGER NOT NULL DEFAULT 0
    CHECK (unreported = 0 OR unreported = 1);

CREATE INDEX runs_unreported ON runs (run) WHERE unreported = 1;
