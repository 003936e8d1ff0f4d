-- name: list_runs
SELECT {numbered_run}
FROM minuet.runs
WHERE tenant = $1 AND ($2::text IS NULL OR run < $2)
ORDER BY run DESC
LIMIT $3;

-- name: list_runs_by_status
-- Each status has its own stretch of the index: the newest of each, merged.
SELECT {r.numbered_run}
FROM unnest($4::minuet.run_status[]) AS s (status)
CROSS JOIN LATERAL (
    SELECT {r.numbered_run}
    FROM minuet.runs AS r
    WHERE r.tenant = $1 AND r.status = s.status AND ($2::text IS NULL OR r.run < $2)
    ORDER BY r.run DESC
    LIMIT $3
) AS r
ORDER BY r.run DESC
LIMIT $3;

-- name: list_runs_by_workflow
-- As by status, but along the index that begins with the workflow: a condition that is sometimes absent
-- would fit neither.
SELECT {r.numbered_run}
FROM unnest($4::minuet.run_status[]) AS s (status)
CROSS JOIN LATERAL (
    SELECT {r.numbered_run}
    FROM minuet.runs AS r
    WHERE r.tenant = $1
        AND r.workflow = $5
        AND r.status = s.status
        AND ($2::text IS NULL OR r.run < $2)
    ORDER BY r.run DESC
    LIMIT $3
) AS r
ORDER BY r.run DESC
LIMIT $3;
