-- Signals that runs were sent, and the event with which a token began to wait.

CREATE TABLE minuet.signals (
    run text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    seq integer NOT NULL,
    node text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    PRIMARY KEY (run, id)
);

-- Those that no node has received.
CREATE INDEX signals_kept ON minuet.signals (run, seq) WHERE node = '';

ALTER TABLE minuet.tokens ADD COLUMN wait_event integer NOT NULL DEFAULT 0;
