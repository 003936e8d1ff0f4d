-- Cells. The runs of a store and those of a record in the same schema share them.

-- name: lock_cells
-- Calls come one after the other, also about cells that do not exist.
SELECT pg_advisory_xact_lock(hashtextextended('cells', 3));

-- name: read_cells
SELECT name, data FROM minuet.cells WHERE name = ANY ($1::text[]);

-- name: write_cells
INSERT INTO minuet.cells (name, data) SELECT * FROM unnest($1::text[], $2::bytea[])
ON CONFLICT (name) DO UPDATE SET data = excluded.data;

-- name: remove_cells
DELETE FROM minuet.cells WHERE name = ANY ($1::text[]);

-- name: list_cells
SELECT name, data FROM minuet.cells
WHERE name >= $1 AND name > $2 AND name < $3
ORDER BY name
LIMIT $4;
