-- Joins and what has arrived at them.

-- name: load_joins
SELECT {j.join}
FROM json_each(?) AS k
CROSS JOIN joins AS j
    ON j.run = k.value ->> 0 AND j.node = k.value ->> 1 AND j.scope = k.value ->> 2;

-- name: load_arrivals
SELECT a.run, a.node, a.scope, a.source
FROM json_each(?) AS k
CROSS JOIN arrivals AS a
    ON a.run = k.value ->> 0
    AND a.node = k.value ->> 1
    AND a.scope = k.value ->> 2
    AND a.source = k.value ->> 3;

-- name: write_join
INSERT INTO joins ({join})
VALUES ({? join})
ON CONFLICT (run, node, scope) DO UPDATE
SET {join_change = excluded};

-- name: insert_arrival
INSERT OR FAIL INTO arrivals ({arrival})
VALUES ({? arrival});
