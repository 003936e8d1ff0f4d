-- name: read_signals
SELECT {signal}
FROM minuet.signals
WHERE run = $1
    AND node = ''
    AND EXISTS (SELECT FROM minuet.runs WHERE run = $1 AND tenant = $2)
ORDER BY seq;
