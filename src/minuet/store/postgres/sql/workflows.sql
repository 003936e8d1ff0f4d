-- Deployed workflows. The runs of a store and those of a record in the same schema share them.

-- name: lock_workflow
-- Calls about one workflow come one after the other, also when it is new.
SELECT pg_advisory_xact_lock(hashtextextended($1::text || '/' || $2::text, 2));

-- name: read_named
SELECT newest, tags FROM minuet.workflows WHERE tenant = $1 AND name = $2;

-- name: time_of_deployment
SELECT coalesce($1::bigint, minuet.now_ms());

-- name: read_versions
SELECT {workflow_version}
FROM minuet.workflow_versions
WHERE tenant = $1 AND name = $2 AND version = ANY ($3::integer[]);

-- name: write_named
INSERT INTO minuet.workflows (tenant, name, newest, tags) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, name) DO UPDATE SET newest = excluded.newest, tags = excluded.tags;

-- name: insert_version
INSERT INTO minuet.workflow_versions ({workflow_version})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: replace_source
UPDATE minuet.workflow_versions SET source = $4
WHERE tenant = $1 AND name = $2 AND version = $3;

-- name: delete_named
DELETE FROM minuet.workflows WHERE tenant = $1 AND name = $2 RETURNING newest;

-- name: delete_versions
DELETE FROM minuet.workflow_versions WHERE tenant = $1 AND name = $2;

-- name: list_workflows
SELECT w.newest, w.tags, {v.workflow_version}
FROM minuet.workflows AS w
JOIN minuet.workflow_versions AS v
    ON v.tenant = w.tenant AND v.name = w.name AND v.version = w.newest
WHERE w.tenant = $1 AND w.name > $2
ORDER BY w.name
LIMIT $3;

-- name: list_versions
SELECT {workflow_version}
FROM minuet.workflow_versions
WHERE tenant = $1 AND (name, version) > ($2, $3::integer)
ORDER BY name, version
LIMIT $4;
