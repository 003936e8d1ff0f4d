-- Runs that are undone: when that happens without being asked for, how often it has happened, and what
-- a run was before. While it goes on, the run has live tokens and is not over. A constraint cannot be
-- changed, so the table is made again.

CREATE TABLE new_runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    workflow TEXT NOT NULL,
    plan TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status = 'RUNNING' OR status = 'COMPLETED' OR status = 'PENDING'
            OR status = 'PAUSED' OR status = 'FAILED' OR status = 'CANCELLED'
            OR status = 'COMPENSATING'),
    counter INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    generation INTEGER NOT NULL CHECK (generation > 0),
    input BLOB NOT NULL,
    tags TEXT NOT NULL,
    idempotency_key TEXT,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    ended_ms INTEGER,
    deadline_ms INTEGER,
    error TEXT,
    dead_letters INTEGER NOT NULL,
    parent TEXT,
    version INTEGER,
    tag TEXT,
    parent_node TEXT NOT NULL DEFAULT '',
    parent_scope TEXT NOT NULL DEFAULT '',
    depth INTEGER NOT NULL DEFAULT 0,
    children INTEGER NOT NULL DEFAULT 0,
    unreported INTEGER NOT NULL DEFAULT 0 CHECK (unreported = 0 OR unreported = 1),
    parent_number INTEGER NOT NULL DEFAULT 0,
    notable INTEGER NOT NULL DEFAULT 0,
    undo_on TEXT NOT NULL DEFAULT '',
    undos INTEGER NOT NULL DEFAULT 0,
    ends_as TEXT NOT NULL DEFAULT '',
    CONSTRAINT counter_is_zero_exactly_when_not_open
        CHECK ((counter > 0)
            = (status = 'RUNNING' OR status = 'PAUSED' OR status = 'COMPENSATING')
            AND counter >= 0),
    CONSTRAINT ended_exactly_when_over
        CHECK ((ended_ms IS NOT NULL)
            = (status = 'COMPLETED' OR status = 'FAILED' OR status = 'CANCELLED'))
) STRICT;

INSERT INTO new_runs (
    id, run, tenant, workflow, plan, status, counter, seq, generation,
    input, tags, idempotency_key, created_ms, started_ms, ended_ms, deadline_ms, error, dead_letters,
    parent, version, tag, parent_node, parent_scope, depth, children, unreported, parent_number,
    notable
)
SELECT
    id, run, tenant, workflow, plan, status, counter, seq, generation,
    input, tags, idempotency_key, created_ms, started_ms, ended_ms, deadline_ms, error, dead_letters,
    parent, version, tag, parent_node, parent_scope, depth, children, unreported, parent_number,
    notable
FROM runs;

DROP TABLE runs;
ALTER TABLE new_runs RENAME TO runs;

CREATE UNIQUE INDEX runs_idempotency ON runs (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_newest ON runs (tenant, run);
CREATE INDEX runs_by_status ON runs (tenant, status, run);
CREATE INDEX runs_by_workflow ON runs (tenant, workflow, status, run);
CREATE INDEX runs_deadline ON runs (deadline_ms, run) WHERE deadline_ms IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX runs_unreported ON runs (run) WHERE unreported = 1;
CREATE INDEX runs_notable ON runs (run) WHERE notable > 0;
