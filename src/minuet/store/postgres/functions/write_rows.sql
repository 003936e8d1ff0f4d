-- Writing what a step has changed on rows that it has loaded, and taking the next tokens. It decides
-- nothing: all values come from the rules. `settle_rows` has the same arguments around its rows and ends
-- with the same call, but what it writes is only what a known exchange can change, and it compares first.
CREATE FUNCTION minuet.write_rows(
    p_tenant text,
    p_session text,
    p_seq bigint,
    p_lease text,
    p_answer bytea,
    p_now bigint,
    p_lease_ms bigint,
    p_advanced minuet.run_advance[],
    p_rewritten minuet.run_change[],
    p_new_tokens minuet.token_new[],
    p_changed_tokens minuet.token_change[],
    p_joins minuet.join_row[],
    p_arrivals minuet.arrival_row[],
    p_events minuet.event_row[],
    p_take_limits integer[],
    p_take_queues text[],
    p_take_runs text[],
    p_lease_lengths jsonb
) RETURNS SETOF minuet.granted LANGUAGE plpgsql VOLATILE
{planning}
AS $$
DECLARE
    v_count bigint;
BEGIN
    IF p_advanced <> '{}' THEN
        UPDATE minuet.runs AS r
        SET counter = x.counter, seq = x.seq
        FROM unnest(p_advanced) AS x
        WHERE r.run = x.run;
    END IF;
    IF p_rewritten <> '{}' THEN
        UPDATE minuet.runs AS r
        SET {run_change_but_input = x}, input = coalesce(x.input, r.input)
        FROM unnest(p_rewritten) AS x
        WHERE r.run = x.run;
    END IF;
    IF p_new_tokens <> '{}' THEN
        INSERT INTO minuet.tokens ({token_new}, state)
        SELECT {x.token_new}, 'ready'
        FROM unnest(p_new_tokens) AS x;
    END IF;
    IF p_changed_tokens <> '{}' THEN
        UPDATE minuet.tokens AS t
        SET {token_change = x}
        FROM unnest(p_changed_tokens) AS x
        WHERE t.run = x.run AND t.node = x.node AND t.scope = x.scope;
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count <> cardinality(p_changed_tokens) THEN
            RAISE EXCEPTION 'a token is not what it was';
        END IF;
    END IF;
    IF p_joins <> '{}' THEN
        INSERT INTO minuet.joins ({join})
        SELECT {join} FROM unnest(p_joins)
        ON CONFLICT (run, node, scope) DO UPDATE
        SET {join_change = excluded};
    END IF;
    IF p_arrivals <> '{}' THEN
        INSERT INTO minuet.arrivals ({arrival}) SELECT {arrival} FROM unnest(p_arrivals);
    END IF;
    IF p_events <> '{}' THEN
        INSERT INTO minuet.events ({numbered_event}) SELECT {numbered_event} FROM unnest(p_events);
    END IF;
    IF p_session IS NOT NULL THEN
        UPDATE minuet.sessions AS s
        SET seq = p_seq, lease = p_lease, answer = p_answer, at_ms = p_now
        WHERE s.tenant = p_tenant AND s.session = p_session;
    END IF;
    RETURN QUERY
    SELECT *
    FROM minuet.take_rows(
        p_tenant, p_session, p_lease, p_now, p_lease_ms, p_take_limits, p_take_queues,
        p_take_runs, p_lease_lengths
    );
END
$$;
