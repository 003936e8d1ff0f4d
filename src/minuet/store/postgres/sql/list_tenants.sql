-- name: list_tenants
-- Stepping from one to the next in the index: their runs are not read.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM minuet.runs ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT r.tenant
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT tenant FROM minuet.runs WHERE tenant > f.tenant ORDER BY tenant LIMIT 1
    ) AS r
)
SELECT tenant FROM found;

-- name: list_blob_tenants
-- Stepping from one to the next in the index: their blobs are not read.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM minuet.blobs ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT b.tenant
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT tenant FROM minuet.blobs WHERE tenant > f.tenant ORDER BY tenant LIMIT 1
    ) AS b
)
SELECT tenant FROM found;
