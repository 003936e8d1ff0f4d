-- name: record_rows
SELECT * FROM minuet.record_rows($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- Steps of runs that are locked before.

-- name: load_steps
SELECT k.place, s.value
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
    WITH ORDINALITY AS k (run, node, scope, name, place)
JOIN minuet.steps AS s USING (run, node, scope, name);

-- name: insert_steps
INSERT INTO minuet.steps (run, node, scope, name, value)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[]);
