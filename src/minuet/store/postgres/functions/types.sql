-- What the functions take and return. A type that a table has, too, is not used for an argument: a
-- later version may add a column to the table while processes of this one still run.

-- Rows as they are written whole.
CREATE TYPE minuet.run_row AS ({run of runs});
CREATE TYPE minuet.token_row AS ({stored_token of tokens});
CREATE TYPE minuet.join_row AS ({join of joins});
CREATE TYPE minuet.arrival_row AS ({arrival of arrivals});
CREATE TYPE minuet.event_row AS ({numbered_event of events});
CREATE TYPE minuet.dead_letter_row AS ({dead_letter of dead_letters});
CREATE TYPE minuet.signal_row AS ({signal of signals});

-- What a step changes.
CREATE TYPE minuet.run_advance AS (run text, counter integer, seq integer);
CREATE TYPE minuet.run_change AS (run text, {run_change of runs});
CREATE TYPE minuet.token_new AS ({token_new of tokens});
CREATE TYPE minuet.token_change AS (run text, node text, scope text, {token_change of tokens});

-- The same of a step on known rows. Event numbers before and after; how the run has ended, if it has;
-- and whether its relatives have to learn of it.
CREATE TYPE minuet.run_step AS (
    run text, known_seq integer, counter integer, seq integer, ended minuet.run_status,
    unreported boolean
);
CREATE TYPE minuet.token_begun AS ({token_begun of tokens}, lane minuet.token_lane);
-- With the place of its row: it is looked for nowhere else.
CREATE TYPE minuet.token_settled AS (
    place tid, run text, node text, scope text, lease text, outcome minuet.token_outcome,
    event integer
);
CREATE TYPE minuet.event_new AS (run_id bigint, seq integer, data bytea);

CREATE TYPE minuet.slot_state AS (
    tenant text, slot bytea, holders bigint, waiters minuet.tokens[]
);

-- An output, without its data. kind 0: it arrived; 1: the token's node reads it, at this position;
-- 2: it is the token's own; 3: as 1, and its instance failed.
CREATE TYPE minuet.output AS (
    kind integer, position integer, node text, scope text, run_id bigint, event integer, bytes bigint
);

-- A token to be leased, with its outputs. `oversize`: their bytes, when they are too many to come
-- with it.
CREATE TYPE minuet.fit AS (place tid, outputs minuet.output[], oversize bigint);

-- A token that was taken, without what the taker has said itself; where its row lies; the event
-- with the output that made it ready, and the names of other outputs that come with it; and its run.
-- Rows and not arrays of them: those are sent much more slowly.
CREATE TYPE minuet.granted AS (
    {granted_token of tokens},
    taken_ms bigint, place tid, data bytea, outputs minuet.output[], oversize bigint,
    run_id bigint, {granted_run of runs as run_}, run_input bytea
);
