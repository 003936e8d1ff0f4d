-- name: remove_events
DELETE FROM minuet.events WHERE run_id = (SELECT id FROM minuet.runs WHERE run = $1);

-- name: insert_whole_tokens
INSERT INTO minuet.tokens ({stored_token})
SELECT {stored_token} FROM unnest($1::minuet.token_row[]);
