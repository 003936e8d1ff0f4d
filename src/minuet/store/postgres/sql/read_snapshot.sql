-- One statement sees one moment, and takes one round trip. Each part has its number and its order;
-- what belongs to a run is of use only together with the run's own row.

-- name: read_snapshot
SELECT part, item
FROM (
    SELECT 0 AS part, 0 AS place, ROW({plain_run}) AS item
    FROM minuet.runs
    WHERE run = $1 AND tenant = $2
    UNION ALL
    SELECT 1, row_number() OVER (ORDER BY node, scope), ROW({plain_token})
    FROM minuet.tokens
    WHERE run = $1 AND tenant = $2
    UNION ALL
    SELECT 2, row_number() OVER (ORDER BY node, scope), ROW({join})
    FROM minuet.joins
    WHERE run = $1
    UNION ALL
    SELECT 3, row_number() OVER (ORDER BY node, scope, source), ROW({arrival})
    FROM minuet.arrivals
    WHERE run = $1
    UNION ALL
    SELECT 4, e.seq, ROW(r.run, {e.event})
    FROM minuet.runs AS r
    JOIN minuet.events AS e ON e.run_id = r.id
    WHERE r.run = $1 AND r.tenant = $2
    UNION ALL
    SELECT 5, row_number() OVER (ORDER BY node, scope, name), ROW(node, scope, name, value)
    FROM minuet.steps
    WHERE run = $1
    UNION ALL
    SELECT 6, row_number() OVER (ORDER BY node, scope, generation), ROW({dead_letter})
    FROM minuet.dead_letters
    WHERE run = $1
    UNION ALL
    SELECT 7, row_number() OVER (ORDER BY id), ROW({signal})
    FROM minuet.signals
    WHERE run = $1
) AS parts
ORDER BY part, place;
