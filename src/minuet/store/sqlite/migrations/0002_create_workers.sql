-- The workers that are there: what each tells of itself, and when it was last heard of.

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

CREATE INDEX workers_silent ON workers (heartbeat_ms);
