-- Rows of `signals`, and who waits for one. The runs are locked before.

-- name: load_signals
SELECT {s.signal}
FROM unnest($1::text[], $2::text[]) AS k (run, id) JOIN minuet.signals AS s USING (run, id);

-- name: load_kept
SELECT {s.signal}
FROM unnest($1::text[], $2::integer[]) AS k (run, seq)
JOIN minuet.signals AS s USING (run, seq)
WHERE s.node = '';

-- name: kept_signals
SELECT {signal} FROM minuet.signals WHERE run = ANY ($1) AND node = '' ORDER BY run, seq;

-- name: waiting_in_run
SELECT {stored_token}
FROM minuet.tokens
WHERE state = 'waiting' AND tenant = $1 AND wait = $2 AND wait_key = $3 AND run = $4
UNION ALL
SELECT {stored_token}
FROM minuet.tokens
WHERE state = 'waiting' AND tenant = $1 AND wait = $5 AND run = $4;

-- name: load_events
SELECT r.run, e.seq, e.data
FROM unnest($1::text[], $2::integer[]) AS k (run, seq)
JOIN minuet.runs AS r ON r.run = k.run
JOIN minuet.events AS e ON e.run_id = r.id AND e.seq = k.seq;

-- name: write_signals
INSERT INTO minuet.signals ({signal})
SELECT {signal} FROM unnest($1::minuet.signal_row[])
ON CONFLICT (run, id) DO UPDATE SET node = excluded.node, scope = excluded.scope;
