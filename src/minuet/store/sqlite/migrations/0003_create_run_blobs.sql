-- Blobs that belong to a run, and are removed with it.

CREATE TABLE run_blobs (
    run TEXT NOT NULL,
    ref TEXT NOT NULL,
    tenant TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, ref)
) STRICT;
