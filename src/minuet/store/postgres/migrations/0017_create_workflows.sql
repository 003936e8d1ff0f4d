-- Deployed workflows: their versions, which never change; which one is the newest, and which one each
-- tag names. A run of one says which version it began with, and the tag that led to it.

CREATE TABLE minuet.workflows (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    newest integer NOT NULL,
    tags text NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE minuet.workflow_versions (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    plan text COLLATE "C" NOT NULL,
    document text COLLATE "C" NOT NULL,
    message bytea NOT NULL,
    created_ms bigint NOT NULL,
    created_by bytea NOT NULL,
    PRIMARY KEY (tenant, name, version)
);

ALTER TABLE minuet.runs ADD COLUMN version integer;
ALTER TABLE minuet.runs ADD COLUMN tag text COLLATE "C";
