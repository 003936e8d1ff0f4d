-- name: read_sessions
-- The last call of each of these sessions.
SELECT s.tenant, s.session, s.seq, s.lease, s.answer
FROM json_each(?) AS k
JOIN sessions AS s ON s.tenant = k.value ->> 0 AND s.session = k.value ->> 1;

-- name: write_session
INSERT INTO sessions (tenant, session, seq, lease, answer, at_ms)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, session) DO UPDATE
SET seq = excluded.seq, lease = excluded.lease, answer = excluded.answer, at_ms = excluded.at_ms;

-- name: forget_sessions
DELETE FROM sessions WHERE at_ms < :before RETURNING 1;
