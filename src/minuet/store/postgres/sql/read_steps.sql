-- name: read_steps
SELECT name, value
FROM minuet.steps
WHERE run = $1
    AND node = $2
    AND scope = $3
    AND EXISTS (SELECT FROM minuet.runs WHERE run = $1 AND tenant = $4)
ORDER BY name;
