-- name: touch_blobs
UPDATE blobs
SET touched_ms = :now
WHERE tenant = :tenant
    AND ref IN (SELECT value FROM json_each(:refs))
    AND abs(:now - touched_ms) >= :touch;

-- name: find_blobs
SELECT ref FROM blobs WHERE tenant = :tenant AND ref IN (SELECT value FROM json_each(:refs));
