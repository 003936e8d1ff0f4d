-- An exchange in one call. Nothing is loaded for it: the rules (`Transition`) have worked it out on
-- rows that the caller knew, and say how runs and tokens are afterwards.
--
-- What is decided here:
-- * whether it still holds: if its session, one of its runs or one of its tokens has moved since,
--   nothing is changed, and the caller does the same by `load_rows` and `write_rows`. The session
--   is compared as in `exchange.py`, the lease as in `Transition.hand_in`.
-- * the time of events, of ends and of new tokens: `Transition` gets it as an argument, and here
--   the caller does not know it yet.
-- * which tokens are taken (`take_rows`).
--
-- No row: something has moved, and nothing was changed. Otherwise the first one only says when
-- it is, and the others are what was granted.
CREATE FUNCTION minuet.settle_rows(
    p_tenant text,
    p_session text,
    p_seq bigint,
    p_lease text,
    p_answer bytea,
    p_now bigint,
    p_lease_ms bigint,
    p_durability text,
    p_runs minuet.run_step[],
    p_settled minuet.token_settled[],
    p_begun minuet.token_begun[],
    p_joins minuet.join_row[],
    p_arrivals minuet.arrival_row[],
    p_events minuet.event_new[],
    p_take_limits integer[],
    p_take_queues text[],
    p_take_runs text[],
    p_lease_lengths jsonb
) RETURNS SETOF minuet.granted LANGUAGE plpgsql VOLATILE
{planning}
AS $$
DECLARE
    v_count bigint;
    v_head minuet.granted;
    v_now bigint;
BEGIN
    PERFORM set_config('synchronous_commit', p_durability, true),
        set_config('lock_timeout', '20s', true);
    -- Not older than any event of these runs: if another call wrote one after this, it fails.
    v_now := coalesce(p_now, minuet.now_ms());
    BEGIN
        UPDATE minuet.sessions AS s
        SET seq = p_seq, lease = p_lease, answer = p_answer, at_ms = v_now
        WHERE s.tenant = p_tenant AND s.session = p_session AND s.seq = p_seq - 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'MNT01';
        END IF;
        IF p_runs <> '{}' THEN
            -- They come in the order of their names, which is the order of locks. Not asked for
            -- by tenant: an index that begins with it would be walked through.
            UPDATE minuet.runs AS r
            SET counter = x.counter, seq = x.seq, status = coalesce(x.ended, r.status),
                ended_ms = CASE WHEN x.ended IS NOT NULL THEN v_now END,
                deadline_ms = CASE WHEN x.ended IS NULL THEN r.deadline_ms END,
                unreported = r.unreported OR x.unreported
            FROM unnest(p_runs) AS x
            WHERE r.run = x.run AND r.seq = x.known_seq
                AND CASE WHEN r.tenant = p_tenant THEN true ELSE false END;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            IF v_count <> cardinality(p_runs) THEN
                RAISE EXCEPTION USING ERRCODE = 'MNT01';
            END IF;
            -- Written so that no index fits: the place is the shortest way to the row.
            UPDATE minuet.tokens AS t
            SET state = 'done', outcome = coalesce(x.outcome, 'completed'), due_ms = NULL,
                event = x.event
            FROM unnest(p_settled) AS x
            WHERE t.ctid = x.place
                AND CASE
                    WHEN t.state = 'leased' AND t.lease = x.lease
                    THEN t.run = x.run AND t.node = x.node AND t.scope = x.scope
                    ELSE false
                END;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            IF v_count <> cardinality(p_settled) THEN
                RAISE EXCEPTION USING ERRCODE = 'MNT01';
            END IF;
        END IF;
        IF p_begun <> '{}' THEN
            INSERT INTO minuet.tokens ({token_begun}, lane, tenant, state, due_ms)
            SELECT {x.token_begun}, coalesce(x.lane, ''), p_tenant, 'ready', v_now
            FROM unnest(p_begun) AS x;
        END IF;
        IF p_joins <> '{}' THEN
            -- As they were known: a join changes only when its run gets an event.
            UPDATE minuet.joins AS j
            SET {join_change = x}
            FROM unnest(p_joins) AS x
            WHERE j.run = x.run AND j.node = x.node AND j.scope = x.scope;
        END IF;
        IF p_arrivals <> '{}' THEN
            INSERT INTO minuet.arrivals ({arrival}) SELECT {arrival} FROM unnest(p_arrivals);
        END IF;
    EXCEPTION
        -- What is there already is met in the ordinary way as well.
        WHEN SQLSTATE 'MNT01' OR unique_violation THEN
            RETURN;
    END;
    IF p_events <> '{}' THEN
        INSERT INTO minuet.events (run_id, seq, at_ms, data)
        SELECT x.run_id, x.seq, v_now, x.data
        FROM unnest(p_events) AS x;
    END IF;
    v_head.taken_ms := v_now;
    RETURN NEXT v_head;
    RETURN QUERY
    SELECT *
    FROM minuet.take_rows(
        p_tenant, p_session, p_lease, v_now, p_lease_ms, p_take_limits, p_take_queues,
        p_take_runs, p_lease_lengths
    );
END
$$;
