-- name: read_steps
SELECT name, value
FROM steps
WHERE run = :run
    AND node = :node
    AND scope = :scope
    AND EXISTS (SELECT 1 FROM runs WHERE run = :run AND tenant = :tenant)
ORDER BY name;
