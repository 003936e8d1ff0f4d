-- Deployed workflows.

-- name: read_named
SELECT newest, tags FROM workflows WHERE tenant = :tenant AND name = :name;

-- name: read_versions
SELECT {v.workflow_version}
FROM json_each(:numbers) AS k
CROSS JOIN workflow_versions AS v
    ON v.tenant = :tenant AND v.name = :name AND v.version = k.value;

-- name: write_named
INSERT INTO workflows (tenant, name, newest, tags) VALUES (:tenant, :name, :newest, :tags)
ON CONFLICT (tenant, name) DO UPDATE SET newest = excluded.newest, tags = excluded.tags;

-- name: insert_version
INSERT INTO workflow_versions ({workflow_version})
VALUES ({? workflow_version});

-- name: replace_source
UPDATE workflow_versions SET source = :source
WHERE tenant = :tenant AND name = :name AND version = :version;

-- name: delete_named
DELETE FROM workflows WHERE tenant = :tenant AND name = :name;

-- name: delete_versions
DELETE FROM workflow_versions WHERE tenant = :tenant AND name = :name;

-- name: list_workflows
SELECT w.newest, w.tags, {v.workflow_version}
FROM workflows AS w
JOIN workflow_versions AS v
    ON v.tenant = w.tenant AND v.name = w.name AND v.version = w.newest
WHERE w.tenant = :tenant AND w.name > :after
ORDER BY w.name
LIMIT :limit;

-- name: list_versions
SELECT {workflow_version}
FROM workflow_versions
WHERE tenant = :tenant AND (name, version) > (:name, :version)
ORDER BY name, version
LIMIT :limit;
