-- name: read_signals
SELECT {signal}
FROM signals
WHERE run = :run
    AND node = ''
    AND EXISTS (SELECT 1 FROM runs WHERE run = :run AND tenant = :tenant)
ORDER BY seq;
