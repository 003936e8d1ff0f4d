-- Blobs that belong to a run, and are removed with it.

CREATE TABLE minuet.run_blobs (
    run text COLLATE "C" NOT NULL,
    ref text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (run, ref)
);

-- The same for runs of the record.
CREATE TABLE minuet.record_blobs (LIKE minuet.run_blobs INCLUDING ALL);
