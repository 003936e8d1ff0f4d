-- Runs, tokens, joins, events and what belongs to them.
--
-- Names sort by their bytes, as they do everywhere else in Minuet. Text that a document or a
-- caller may fill with anything is kept as bytes, because text in PostgreSQL cannot hold \u0000.
-- Every index over tokens but the key covers only those that are alive, so finished work costs
-- nothing. Rows that change often leave room in their page, so that the change can stay there.

CREATE TABLE minuet.migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_ms bigint NOT NULL
);

-- Types and not checks: a check is read anew by every statement that writes to its table.
CREATE TYPE minuet.run_status AS ENUM (
    'PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED'
);
CREATE TYPE minuet.token_state AS ENUM ('ready', 'leased', 'waiting', 'done', 'dead');
CREATE TYPE minuet.token_outcome AS ENUM (
    '', 'completed', 'skipped', 'failed', 'cancelled', 'superseded'
);
CREATE TYPE minuet.token_lane AS ENUM ('', 'pause', 'slot');

CREATE TABLE minuet.runs (
    id bigint GENERATED ALWAYS AS IDENTITY,
    run text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    plan text COLLATE "C" NOT NULL,
    status minuet.run_status NOT NULL,
    counter integer NOT NULL CHECK (counter >= 0),
    seq integer NOT NULL,
    generation integer NOT NULL,
    input bytea NOT NULL,
    tags text NOT NULL,
    idempotency_key bytea,
    created_ms bigint NOT NULL,
    started_ms bigint,
    ended_ms bigint,
    deadline_ms bigint,
    error text,
    dead_letters integer NOT NULL,
    parent text COLLATE "C",
    CONSTRAINT counter_is_zero_exactly_when_not_open
        CHECK ((counter > 0) = (status = 'RUNNING' OR status = 'PAUSED')),
    CONSTRAINT ended_exactly_when_over
        CHECK ((ended_ms IS NOT NULL) = (status >= 'COMPLETED'))
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);

CREATE UNIQUE INDEX runs_idempotency ON minuet.runs (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_newest ON minuet.runs (tenant, run);
CREATE INDEX runs_by_status ON minuet.runs (tenant, status, run);
CREATE INDEX runs_by_workflow ON minuet.runs (tenant, workflow, status, run);
CREATE INDEX runs_deadline ON minuet.runs (deadline_ms, run) WHERE deadline_ms IS NOT NULL;

CREATE TABLE minuet.tokens (
    run text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    state minuet.token_state NOT NULL,
    outcome minuet.token_outcome NOT NULL DEFAULT '',
    skip boolean NOT NULL,
    due_ms bigint,
    hop integer NOT NULL,
    attempt integer NOT NULL DEFAULT 1,
    expiry integer NOT NULL DEFAULT 0,
    delivery integer NOT NULL DEFAULT 0,
    lease text COLLATE "C" NOT NULL DEFAULT '',
    session text COLLATE "C" NOT NULL DEFAULT '',
    taken_ms bigint NOT NULL DEFAULT 0,
    source text COLLATE "C" NOT NULL,
    source_scope text COLLATE "C" NOT NULL,
    reads text,
    cursor bigint NOT NULL DEFAULT 0,
    wait text COLLATE "C" NOT NULL DEFAULT '',
    wait_key bytea NOT NULL DEFAULT '',
    resolution bytea,
    event integer NOT NULL DEFAULT 0,
    lane minuet.token_lane NOT NULL,
    slot bytea NOT NULL DEFAULT '',
    slot_limit bigint NOT NULL DEFAULT 0,
    -- Number of the event with the output of `source`, so that a take finds it at once.
    source_event integer NOT NULL DEFAULT 0,
    PRIMARY KEY (run, node, scope),
    CONSTRAINT outcome_exactly_when_settled
        CHECK ((outcome <> '') = (state >= 'done')),
    CONSTRAINT leased_until_some_time
        CHECK (due_ms IS NOT NULL OR state > 'leased'),
    CONSTRAINT held_back_only_while_ready CHECK (lane = '' OR state = 'ready')
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05
);

-- What a take looks at: as many entries as it returns.
CREATE INDEX tokens_ready ON minuet.tokens (tenant, queue, due_ms, run, node, scope)
    WHERE state = 'ready' AND lane = '';
-- Held back by a pause, or waiting for a slot.
CREATE INDEX tokens_parked ON minuet.tokens (tenant, queue) WHERE lane <> '';
-- Holding a slot, or waiting for one in the order of asking; and the same by run.
CREATE INDEX tokens_slot ON minuet.tokens (tenant, slot, due_ms, run, node, scope)
    WHERE slot <> '';
CREATE INDEX tokens_slot_of_run ON minuet.tokens (run) WHERE slot <> '';
-- What a sweep looks at: leases and time-outs by when they are due.
CREATE INDEX tokens_leased ON minuet.tokens (due_ms) WHERE state = 'leased';
CREATE INDEX tokens_waiting_due ON minuet.tokens (due_ms)
    WHERE state = 'waiting' AND due_ms IS NOT NULL;
-- Who waits for something outside.
CREATE INDEX tokens_waiting ON minuet.tokens (tenant, wait, run, node, scope)
    WHERE state = 'waiting';
CREATE INDEX tokens_waiting_key ON minuet.tokens (tenant, wait, wait_key, run, node, scope)
    WHERE state = 'waiting';

CREATE TABLE minuet.joins (
    run text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    need bigint NOT NULL,
    total bigint NOT NULL,
    live bigint NOT NULL CHECK (live >= 0),
    skipped bigint NOT NULL CHECK (skipped >= 0),
    fired boolean NOT NULL,
    hop integer NOT NULL,
    PRIMARY KEY (run, node, scope)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE minuet.arrivals (
    run text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    source_scope text COLLATE "C" NOT NULL,
    live boolean NOT NULL,
    late boolean NOT NULL,
    PRIMARY KEY (run, node, scope, source)
);

-- Events name their run by its number: it keeps the index small.
CREATE TABLE minuet.events (
    run_id bigint NOT NULL,
    seq integer NOT NULL CHECK (seq > 0),
    at_ms bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE minuet.steps (
    run text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (run, node, scope, name)
);

CREATE TABLE minuet.dead_letters (
    run text COLLATE "C" NOT NULL,
    node text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    error text NOT NULL,
    fingerprint text NOT NULL,
    attempts integer NOT NULL,
    at_ms bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'reprocessed', 'discarded')),
    PRIMARY KEY (run, node, scope, generation)
);

CREATE INDEX dead_letters_oldest
    ON minuet.dead_letters (tenant, at_ms, run, node, scope, generation);
CREATE INDEX dead_letters_pending
    ON minuet.dead_letters (tenant, at_ms, run, node, scope, generation)
    WHERE status = 'pending';

-- The last call of each worker, so that one whose answer was lost can be repeated.
CREATE TABLE minuet.sessions (
    tenant text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    lease text NOT NULL,
    answer bytea NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (tenant, session)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE minuet.blobs (
    tenant text COLLATE "C" NOT NULL,
    ref text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (tenant, ref)
);
