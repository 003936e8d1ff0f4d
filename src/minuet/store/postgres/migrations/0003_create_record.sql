-- The record of runs that are executed elsewhere: their events, each with a hash over all before it.
--
-- A run's row is as of its last event. Before its first one it holds what was submitted. No column
-- that every append changes is in an index, so the change stays in its page.

CREATE TABLE minuet.record_runs (
    run text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    status minuet.run_status NOT NULL,
    seq integer NOT NULL CHECK (seq >= 0),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    state bytea NOT NULL,
    input bytea NOT NULL,
    content bytea,
    idempotency_key bytea,
    submission bytea,
    submitted_ms bigint NOT NULL,
    ended_ms bigint,
    CONSTRAINT submitted_exactly_while_nothing_has_happened
        CHECK ((submission IS NOT NULL) = (seq = 0)),
    CONSTRAINT ended_exactly_when_over
        CHECK ((ended_ms IS NOT NULL) = (status >= 'COMPLETED'))
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05
);

CREATE UNIQUE INDEX record_runs_idempotency ON minuet.record_runs (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX record_runs_newest ON minuet.record_runs (tenant, run);
CREATE INDEX record_runs_by_status ON minuet.record_runs (tenant, status, run);
CREATE INDEX record_runs_by_workflow ON minuet.record_runs (tenant, workflow, status, run);
CREATE INDEX record_runs_open ON minuet.record_runs (run) WHERE ended_ms IS NULL;
CREATE INDEX record_runs_ended ON minuet.record_runs (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX record_runs_submitted ON minuet.record_runs (submitted_ms)
    WHERE submission IS NOT NULL;

CREATE TABLE minuet.record_events (
    run text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    at_ms bigint NOT NULL,
    data bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (run, seq)
);

-- Runs that were deleted: a hot store that was set back may have them again.
CREATE TABLE minuet.record_deleted (
    run text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX record_deleted_oldest ON minuet.record_deleted (deleted_at);

-- Which state of a hot store was compared with the record last, or is being compared: one row.
CREATE TABLE minuet.record_check (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    epoch bigint NOT NULL DEFAULT 1,
    identity text NOT NULL,
    owner text NOT NULL,
    claimed_until timestamptz NOT NULL,
    done boolean NOT NULL DEFAULT false
);
