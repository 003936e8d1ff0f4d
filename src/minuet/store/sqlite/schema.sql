-- What the migrations make, in one piece, to be read. Nothing executes it: a test compares it with
-- what `migrate.dump_schema` says of a new file.

CREATE INDEX dead_letters_oldest ON dead_letters (tenant, at_ms, run, node, scope, generation);

CREATE INDEX dead_letters_pending ON dead_letters (tenant, at_ms, run, node, scope, generation)
    WHERE status = 'pending';

CREATE INDEX runs_by_status ON runs (tenant, status, run);

CREATE INDEX runs_by_workflow ON runs (tenant, workflow, status, run);

CREATE INDEX runs_deadline ON runs (deadline_ms, run) WHERE deadline_ms IS NOT NULL;

CREATE INDEX runs_ended ON runs (ended_ms) WHERE ended_ms IS NOT NULL;

CREATE UNIQUE INDEX runs_idempotency ON runs (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE INDEX runs_newest ON runs (tenant, run);

CREATE INDEX runs_notable ON runs (run) WHERE notable > 0;

CREATE INDEX runs_unreported ON runs (run) WHERE unreported = 1;

CREATE INDEX signals_kept ON signals (run, seq) WHERE node = '';

CREATE INDEX tokens_due ON tokens (state, due_ms)
    WHERE state = 'leased' OR state = 'waiting';

CREATE INDEX tokens_parked ON tokens (tenant, slot, due_ms, run, node, scope)
    WHERE slot <> '' OR lane <> '';

CREATE INDEX tokens_ready ON tokens (tenant, queue, due_ms, run, node, scope)
    WHERE state = 'ready' AND lane = '';

CREATE INDEX tokens_waiting ON tokens (tenant, wait, run, node, scope) WHERE state = 'waiting';

CREATE INDEX tokens_waiting_key ON tokens (tenant, wait, wait_key, run, node, scope)
    WHERE state = 'waiting';

CREATE INDEX workers_silent ON workers (heartbeat_ms);

CREATE TABLE arrivals (
    run TEXT NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    source TEXT NOT NULL,
    source_scope TEXT NOT NULL,
    live INTEGER NOT NULL CHECK (live = 0 OR live = 1),
    late INTEGER NOT NULL CHECK (late = 0 OR late = 1),
    PRIMARY KEY (run, node, scope, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
    tenant TEXT NOT NULL,
    ref TEXT NOT NULL,
    data BLOB NOT NULL, touched_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, ref)
) STRICT;

CREATE TABLE cells (
    name TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
    run TEXT NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    generation INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    reason TEXT NOT NULL,
    error TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    status TEXT NOT NULL
        CHECK (status = 'pending' OR status = 'reprocessed' OR status = 'discarded'), workflow TEXT NOT NULL DEFAULT '', settled_ms INTEGER, why TEXT NOT NULL DEFAULT '', held INTEGER NOT NULL DEFAULT 0 CHECK (held = 0 OR held = 1),
    PRIMARY KEY (run, node, scope, generation)
) STRICT;

CREATE TABLE events (
    run_id INTEGER NOT NULL,
    seq INTEGER NOT NULL CHECK (seq > 0),
    at_ms INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run_id, seq)
) STRICT;

CREATE TABLE joins (
    run TEXT NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    need INTEGER NOT NULL,
    total INTEGER NOT NULL,
    live INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    fired INTEGER NOT NULL CHECK (fired = 0 OR fired = 1),
    hop INTEGER NOT NULL,
    PRIMARY KEY (run, node, scope)
) STRICT, WITHOUT ROWID;

CREATE TABLE migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE run_blobs (
    run TEXT NOT NULL,
    ref TEXT NOT NULL,
    tenant TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, ref)
) STRICT;

CREATE TABLE "runs" (
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
    ends_as TEXT NOT NULL DEFAULT '', output_bytes INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT counter_is_zero_exactly_when_not_open
        CHECK ((counter > 0)
            = (status = 'RUNNING' OR status = 'PAUSED' OR status = 'COMPENSATING')
            AND counter >= 0),
    CONSTRAINT ended_exactly_when_over
        CHECK ((ended_ms IS NOT NULL)
            = (status = 'COMPLETED' OR status = 'FAILED' OR status = 'CANCELLED'))
) STRICT;

CREATE TABLE sessions (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    lease TEXT NOT NULL,
    answer BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;

CREATE TABLE signals (
    run TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    run TEXT NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (run, node, scope, name)
) STRICT;

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state = 'ready' OR state = 'leased' OR state = 'done' OR state = 'waiting'
            OR state = 'dead'),
    outcome TEXT NOT NULL
        CHECK (outcome = '' OR outcome = 'completed' OR outcome = 'skipped' OR outcome = 'failed'
            OR outcome = 'cancelled' OR outcome = 'superseded'),
    skip INTEGER NOT NULL CHECK (skip = 0 OR skip = 1),
    due_ms INTEGER,
    hop INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    expiry INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    lease TEXT NOT NULL,
    session TEXT NOT NULL,
    taken_ms INTEGER NOT NULL,
    source TEXT NOT NULL,
    source_scope TEXT NOT NULL,
    reads TEXT,
    cursor INTEGER NOT NULL,
    wait TEXT NOT NULL,
    wait_key TEXT NOT NULL,
    resolution BLOB,
    event INTEGER NOT NULL,
    lane TEXT NOT NULL CHECK (lane = '' OR lane = 'pause' OR lane = 'slot'),
    slot TEXT NOT NULL,
    slot_limit INTEGER NOT NULL, lost TEXT NOT NULL DEFAULT '', wait_event INTEGER NOT NULL DEFAULT 0, given INTEGER NOT NULL DEFAULT 0, edited INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, node, scope),
    CONSTRAINT outcome_exactly_when_settled
        CHECK ((outcome <> '') = (state = 'done' OR state = 'dead')),
    CONSTRAINT leased_until_some_time
        CHECK (due_ms IS NOT NULL OR NOT (state = 'ready' OR state = 'leased'))
) STRICT;

CREATE TABLE workers (
    tenant TEXT NOT NULL,
    worker TEXT NOT NULL,
    record BLOB NOT NULL,
    registered_ms INTEGER NOT NULL,
    heartbeat_ms INTEGER NOT NULL,
    draining INTEGER NOT NULL CHECK (draining = 0 OR draining = 1),
    removed INTEGER NOT NULL CHECK (removed = 0 OR removed = 1),
    PRIMARY KEY (tenant, worker)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_versions (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    plan TEXT NOT NULL,
    document TEXT NOT NULL,
    message TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL, source TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    newest INTEGER NOT NULL CHECK (newest > 0),
    tags TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

