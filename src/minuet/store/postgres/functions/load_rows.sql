-- Loading what a step touches, under its locks. Between this and writing back the rules run, outside
-- (`Transition`).
--
-- Each statement of a function sees what was committed before it began, so what is read after a
-- lock was waited for is never older than the lock. Locks are taken in one order everywhere: the
-- session, runs by name, concurrency slots by their number, tokens; a take only takes what is
-- free and never waits. A token is changed under the lock of its run, with two exceptions:
-- a take leases a token that is ready in the open lane, and a slot that becomes free lets a
-- token go on that waits for it, under the lock of the slot.

CREATE FUNCTION minuet.without_input(r minuet.runs) RETURNS minuet.runs
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    -- It may be large, and only some calls need it.
    r.input := '';
    RETURN r;
END
$$;

CREATE FUNCTION minuet.load_rows(
    p_tenant text,
    p_session text,
    p_now bigint,
    p_inputs boolean,
    p_runs text[],
    p_token_runs text[],
    p_token_nodes text[],
    p_token_scopes text[],
    p_join_runs text[],
    p_join_nodes text[],
    p_join_scopes text[],
    p_join_sources text[],
    p_whole text[],
    p_slot_tenants text[],
    p_slots bytea[],
    OUT o_now bigint,
    OUT o_seq bigint,
    OUT o_lease text,
    OUT o_answer bytea,
    OUT o_runs minuet.runs[],
    OUT o_tokens minuet.tokens[],
    OUT o_whole minuet.tokens[],
    OUT o_joins minuet.joins[],
    OUT o_arrivals bigint[],
    OUT o_slots minuet.slot_state[],
    OUT o_waiting_runs minuet.runs[]
) LANGUAGE plpgsql VOLATILE
{planning}
AS $$
DECLARE
    v_slot record;
    v_waiter minuet.tokens;
    v_waiters minuet.tokens[];
    v_holders bigint;
    v_base bigint;
BEGIN
    IF p_session IS NOT NULL THEN
        SELECT s.seq, s.lease, s.answer INTO o_seq, o_lease, o_answer
        FROM minuet.sessions AS s
        WHERE s.tenant = p_tenant AND s.session = p_session
        FOR UPDATE;
        IF NOT FOUND THEN
            -- A call that begins the same session at this moment waits here.
            INSERT INTO minuet.sessions VALUES (p_tenant, p_session, 0, '', '', 0)
            ON CONFLICT DO NOTHING;
            SELECT s.seq, s.lease, s.answer INTO o_seq, o_lease, o_answer
            FROM minuet.sessions AS s
            WHERE s.tenant = p_tenant AND s.session = p_session
            FOR UPDATE;
        END IF;
    END IF;

    IF p_runs <> '{}' THEN
        SELECT array_agg(
            CASE WHEN p_inputs THEN l.r ELSE minuet.without_input(l.r) END
        ) INTO o_runs
        FROM (
            SELECT r
            FROM minuet.runs AS r
            WHERE r.run = ANY (p_runs) AND (p_tenant IS NULL OR r.tenant = p_tenant)
            ORDER BY r.run
            FOR UPDATE
        ) AS l;
    END IF;
    -- After the runs are locked, so that time does not go back within a run.
    o_now := coalesce(p_now, minuet.now_ms());

    -- Under its run's lock a token keeps its slot, so the slots can be locked before tokens are.
    IF p_slots <> '{}' OR EXISTS (
        SELECT FROM minuet.tokens AS t WHERE t.slot <> '' AND t.run = ANY (p_runs)
    ) THEN
        FOR v_slot IN
            SELECT * FROM minuet.slots_of(p_tenant, p_runs, p_slot_tenants, p_slots) AS x
            ORDER BY minuet.slot_lock(x.tenant, x.slot)
        LOOP
            PERFORM pg_advisory_xact_lock(minuet.slot_lock(v_slot.tenant, v_slot.slot));
        END LOOP;
        -- Again, now that no other step can give a slot to a waiter.
        FOR v_slot IN
            SELECT * FROM minuet.slots_of(p_tenant, p_runs, p_slot_tenants, p_slots) AS x
        LOOP
            SELECT count(*) INTO v_holders
            FROM minuet.tokens AS t
            WHERE t.slot <> ''
                AND t.tenant = v_slot.tenant
                AND t.slot = v_slot.slot
                AND t.lane <> 'slot';
            -- As many as could go on if all tokens at hand gave the slot back, and the next one.
            v_base := v_holders - v_slot.held;
            v_waiters := '{}';
            FOR v_waiter IN
                SELECT t.*
                FROM minuet.tokens AS t
                WHERE t.slot <> ''
                    AND t.tenant = v_slot.tenant
                    AND t.slot = v_slot.slot
                    AND t.lane = 'slot'
                ORDER BY t.due_ms, t.run, t.node, t.scope
            LOOP
                v_waiters := v_waiters || v_waiter;
                EXIT WHEN v_base >= v_waiter.slot_limit;
                v_base := v_base + 1;
            END LOOP;
            o_slots := o_slots
                || ROW(v_slot.tenant, v_slot.slot, v_holders, v_waiters)::minuet.slot_state;
        END LOOP;
        SELECT array_agg(minuet.without_input(r)) INTO o_waiting_runs
        FROM minuet.runs AS r
        WHERE r.run IN (
            SELECT w.run FROM unnest(o_slots) AS s CROSS JOIN LATERAL unnest(s.waiters) AS w
        );
    END IF;

    IF p_token_runs <> '{}' THEN
        SELECT array_agg(t) INTO o_tokens
        FROM unnest(p_token_runs, p_token_nodes, p_token_scopes) AS k (run, node, scope)
        JOIN minuet.tokens AS t ON t.run = k.run AND t.node = k.node AND t.scope = k.scope
        WHERE p_tenant IS NULL OR t.tenant = p_tenant;
    END IF;

    IF p_whole <> '{}' THEN
        -- Locked: another call may be taking one of them.
        SELECT array_agg(l.t) INTO o_whole
        FROM (
            SELECT t
            FROM minuet.tokens AS t
            WHERE t.run = ANY (p_whole)
                AND t.state <> 'done'
                AND (p_tenant IS NULL OR t.tenant = p_tenant)
            ORDER BY t.run, t.node, t.scope
            FOR UPDATE
        ) AS l;
    END IF;

    IF p_join_runs <> '{}' THEN
        SELECT array_agg(j) INTO o_joins
        FROM (
            SELECT DISTINCT run, node, scope
            FROM unnest(p_join_runs, p_join_nodes, p_join_scopes) AS k (run, node, scope)
        ) AS k
        JOIN minuet.joins AS j ON j.run = k.run AND j.node = k.node AND j.scope = k.scope;
        SELECT array_agg(k.place) INTO o_arrivals
        FROM unnest(p_join_runs, p_join_nodes, p_join_scopes, p_join_sources)
            WITH ORDINALITY AS k (run, node, scope, source, place)
        JOIN minuet.arrivals AS a
            ON a.run = k.run AND a.node = k.node AND a.scope = k.scope AND a.source = k.source;
    END IF;
END
$$;
