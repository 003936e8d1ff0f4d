-- Signals that runs were sent, and the event with which a token began to wait.

CREATE TABLE signals (
    run TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL,
    node TEXT NOT NULL,
    scope TEXT NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Those that no node has received.
CREATE INDEX signals_kept ON signals (run, seq) WHERE node = '';

ALTER TABLE tokens ADD COLUMN wait_event INTEGER NOT NULL DEFAULT 0;
