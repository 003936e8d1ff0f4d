-- name: list_tenants
-- Stepping from one to the next in the indexes: their runs and blobs are not read.
WITH RECURSIVE
    with_runs (tenant) AS (
        SELECT min(tenant) FROM runs
        UNION ALL
        SELECT (SELECT min(r.tenant) FROM runs AS r WHERE r.tenant > f.tenant)
        FROM with_runs AS f
        WHERE f.tenant IS NOT NULL
    ),
    with_blobs (tenant) AS (
        SELECT min(tenant) FROM blobs
        UNION ALL
        SELECT (SELECT min(b.tenant) FROM blobs AS b WHERE b.tenant > f.tenant)
        FROM with_blobs AS f
        WHERE f.tenant IS NOT NULL
    )
SELECT tenant FROM with_runs WHERE tenant IS NOT NULL
UNION
SELECT tenant FROM with_blobs WHERE tenant IS NOT NULL
ORDER BY tenant;
