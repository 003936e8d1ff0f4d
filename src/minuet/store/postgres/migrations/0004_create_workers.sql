-- The workers that are there: what each tells of itself, and when it was last heard of.

CREATE TABLE minuet.workers (
    tenant text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    record bytea NOT NULL,
    registered_ms bigint NOT NULL,
    heartbeat_ms bigint NOT NULL,
    draining boolean NOT NULL,
    removed boolean NOT NULL,
    PRIMARY KEY (tenant, worker)
) WITH (fillfactor = 50);

CREATE INDEX workers_silent ON minuet.workers (heartbeat_ms);
