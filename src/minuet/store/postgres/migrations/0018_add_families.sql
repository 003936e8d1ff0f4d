-- Child runs: which node instance has started a run, how deep it is, how often it has started a child
-- run, and whether its relatives have to learn of something.

ALTER TABLE minuet.runs
    ADD COLUMN parent_node text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN parent_scope text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN depth integer NOT NULL DEFAULT 0,
    ADD COLUMN children integer NOT NULL DEFAULT 0,
    ADD COLUMN unreported boolean NOT NULL DEFAULT false;

CREATE INDEX runs_unreported ON minuet.runs (run) WHERE unreported;
