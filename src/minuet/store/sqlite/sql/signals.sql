-- Rows of `signals`, and who waits for one.

-- name: load_signal
SELECT {signal} FROM signals WHERE run = ? AND id = ?;

-- name: load_kept
SELECT {signal} FROM signals WHERE run = ? AND node = '' AND seq = ?;

-- name: kept_signals
SELECT {signal} FROM signals WHERE run = ? AND node = '' ORDER BY seq;

-- name: waiting_in_run
SELECT {numbered_token}
FROM tokens
WHERE state = 'waiting' AND tenant = ? AND wait = ? AND run = ?
ORDER BY node, scope;

-- name: waiting_for_key_in_run
SELECT {numbered_token}
FROM tokens
WHERE state = 'waiting' AND tenant = ? AND wait = ? AND wait_key = ? AND run = ?
ORDER BY node, scope;

-- name: write_signal
INSERT INTO signals ({signal}) VALUES ({? signal})
ON CONFLICT (run, id) DO UPDATE SET node = excluded.node, scope = excluded.scope;
