-- Cells.

-- name: read_cells
SELECT c.name, c.data FROM json_each(:names) AS k CROSS JOIN cells AS c ON c.name = k.value;

-- name: write_cell
INSERT INTO cells (name, data) VALUES (:name, :data)
ON CONFLICT (name) DO UPDATE SET data = excluded.data;

-- name: remove_cell
DELETE FROM cells WHERE name = :name;

-- name: list_cells
SELECT name, data FROM cells
WHERE name >= :prefix AND name > :after AND name < :last
ORDER BY name
LIMIT :limit;
