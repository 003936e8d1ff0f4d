-- Deployed workflows: their versions, which never change; which one is the newest, and which one each
-- tag names. A run of one says which version it began with, and the tag that led to it.

CREATE TABLE workflows (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    newest INTEGER NOT NULL CHECK (newest > 0),
    tags TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_versions (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version > 0),
    plan TEXT NOT NULL,
    document TEXT NOT NULL,
    message TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;

ALTER TABLE runs ADD COLUMN version INTEGER;
ALTER TABLE runs ADD COLUMN tag TEXT;
