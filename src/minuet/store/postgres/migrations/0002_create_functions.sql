-- The two calls of an exchange: load what it touches, write what it changed and take the next.
-- Between them the rules run, outside (`store.transition`). A caller that knows what it would
-- load makes the second call alone; it then says on which event numbers its answer rests.
--
-- Each statement of a function sees what was committed before it began, so what is read after a
-- lock was waited for is never older than the lock. Locks are taken in one order everywhere: the
-- session, runs by name, concurrency slots by their number, tokens; a take only takes what is
-- free and waits for nobody. A token is changed under the lock of its run, with two exceptions:
-- a take leases a token that is ready in the open lane, and a slot that becomes free lets a
-- token go on that waits for it, under the lock of the slot.
--
-- The settings keep plans that were made while a table was empty from walking all of it later.

CREATE TYPE minuet.run_advance AS (run text, counter integer, seq integer);

CREATE TYPE minuet.run_change AS (
    run text, plan text, status minuet.run_status, counter integer, seq integer, generation integer,
    input bytea, started_ms bigint, ended_ms bigint, deadline_ms bigint, error text,
    dead_letters integer
);

CREATE TYPE minuet.token_new AS (
    run text, node text, scope text, tenant text, queue text, skip boolean, due_ms bigint,
    hop integer, source text, source_scope text, reads text, lane minuet.token_lane
);

CREATE TYPE minuet.token_change AS (
    run text, node text, scope text, state minuet.token_state, outcome minuet.token_outcome,
    due_ms bigint, attempt integer, expiry integer, lease text, cursor bigint, wait text,
    wait_key bytea, resolution bytea, event integer, lane minuet.token_lane, slot bytea,
    slot_limit bigint
);

CREATE TYPE minuet.slot_state AS (
    tenant text, slot bytea, holders bigint, waiters minuet.tokens[]
);

-- A token that was taken, without what the taker has said itself.
CREATE TYPE minuet.token_taken AS (
    run text, node text, scope text, queue text, skip boolean, hop integer, attempt integer,
    expiry integer, delivery integer, source text, source_scope text, reads text, cursor bigint,
    resolution bytea, event integer, slot bytea, slot_limit bigint
);

-- kind 0: it arrived; 1: the token's node reads it, at this position; 2: it is the token's own.
CREATE TYPE minuet.output AS (
    place integer, kind integer, position integer, node text, scope text, data bytea
);

CREATE FUNCTION minuet.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

CREATE FUNCTION minuet.slot_lock(tenant text, slot bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(tenant || '/' || encode(slot, 'hex'), 0)
$$;

CREATE FUNCTION minuet.without_input(r minuet.runs) RETURNS minuet.runs
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    -- It may be large, and only those who ask for it look at it.
    r.input := '';
    RETURN r;
END
$$;

-- The outputs that come with these tokens: what arrived, what is read, what goes on.
CREATE FUNCTION minuet.outputs_of(p_tokens minuet.token_taken[]) RETURNS minuet.output[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT array_agg(
            ROW(x.place, x.kind, x.position, x.node, x.scope, e.data)::minuet.output
        )
        FROM (
            SELECT g.ordinality AS place, 0 AS kind, 0 AS position, g.run, s.node, s.scope, s.event
            FROM unnest(p_tokens) WITH ORDINALITY AS g
            JOIN minuet.tokens AS s
                ON s.run = g.run AND s.node = g.source AND s.scope = g.source_scope
            WHERE g.source <> '' AND NOT g.skip
            UNION ALL
            SELECT g.ordinality, 0, 0, g.run, s.node, s.scope, s.event
            FROM unnest(p_tokens) WITH ORDINALITY AS g
            JOIN minuet.arrivals AS a
                ON a.run = g.run AND a.node = g.node AND a.scope = g.scope AND a.live AND NOT a.late
            JOIN minuet.tokens AS s
                ON s.run = a.run AND s.node = a.source AND s.scope = a.source_scope
            WHERE g.source = '' AND NOT g.skip
            UNION ALL
            SELECT g.ordinality, 1, w.position, g.run, s.node, s.scope, s.event
            FROM unnest(p_tokens) WITH ORDINALITY AS g
            CROSS JOIN LATERAL (
                SELECT r.value ->> 0 AS node, r.value ->> 1 AS prefix, r.ordinality AS position
                FROM jsonb_array_elements(g.reads::jsonb) WITH ORDINALITY AS r
            ) AS w
            CROSS JOIN LATERAL (
                SELECT t.node, t.scope, t.event
                FROM minuet.tokens AS t
                WHERE t.run = g.run
                    AND t.node = w.node
                    AND t.scope >= w.prefix
                    AND t.scope < w.prefix || chr(1114111)
                    AND t.event > 0
                    AND NOT t.skip
                ORDER BY t.scope DESC
                LIMIT 1
            ) AS s
            WHERE g.reads IS NOT NULL
            UNION ALL
            SELECT g.ordinality, 2, 0, g.run, g.node, g.scope, g.event
            FROM unnest(p_tokens) WITH ORDINALITY AS g
            WHERE g.cursor > 0
        ) AS x
        JOIN minuet.runs AS r ON r.run = x.run
        JOIN minuet.events AS e ON e.run_id = r.id AND e.seq = x.event
    );
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
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
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
            -- Whoever begins the same session at this moment waits here.
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
            SELECT x.tenant, x.slot, sum(x.held) AS held
            FROM (
                SELECT t.tenant, t.slot, (t.lane <> 'slot')::int AS held
                FROM minuet.tokens AS t
                WHERE t.slot <> ''
                    AND t.run = ANY (p_runs)
                    AND (p_tenant IS NULL OR t.tenant = p_tenant)
                UNION ALL
                SELECT s.tenant, s.slot, 0
                FROM unnest(p_slot_tenants, p_slots) AS s (tenant, slot)
            ) AS x
            GROUP BY x.tenant, x.slot
            ORDER BY minuet.slot_lock(x.tenant, x.slot)
        LOOP
            PERFORM pg_advisory_xact_lock(minuet.slot_lock(v_slot.tenant, v_slot.slot));
        END LOOP;
        -- Again, now that nobody else moves anybody from waiting to holding.
        FOR v_slot IN
            SELECT x.tenant, x.slot, sum(x.held) AS held
            FROM (
                SELECT t.tenant, t.slot, (t.lane <> 'slot')::int AS held
                FROM minuet.tokens AS t
                WHERE t.slot <> ''
                    AND t.run = ANY (p_runs)
                    AND (p_tenant IS NULL OR t.tenant = p_tenant)
                UNION ALL
                SELECT s.tenant, s.slot, 0
                FROM unnest(p_slot_tenants, p_slots) AS s (tenant, slot)
            ) AS x
            GROUP BY x.tenant, x.slot
        LOOP
            SELECT count(*) INTO v_holders
            FROM minuet.tokens AS t
            WHERE t.slot <> ''
                AND t.tenant = v_slot.tenant
                AND t.slot = v_slot.slot
                AND t.lane <> 'slot';
            -- As many as could go on if everybody at hand gave the slot back, and who is next.
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
        -- Locked: somebody may be taking one of them.
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
    p_joins minuet.joins[],
    p_arrivals minuet.arrivals[],
    p_events minuet.events[],
    p_take_limits integer[],
    p_take_places integer[],
    p_take_queues text[],
    p_headers text[],
    p_runs text[],
    p_seqs integer[],
    p_durability text,
    OUT o_moved boolean,
    OUT o_now bigint,
    OUT o_granted minuet.token_taken[],
    OUT o_outputs minuet.output[],
    OUT o_runs minuet.runs[]
) LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_count bigint;
    v_queues text[];
    v_quotas bigint[];
    v_taken minuet.token_taken[];
    v_seqs integer[];
BEGIN
    o_now := p_now;
    IF p_seqs IS NOT NULL THEN
        -- Nothing was loaded for this call: it was worked out on rows that the caller knew. It
        -- holds if neither its session nor one of its runs has moved since.
        PERFORM set_config('synchronous_commit', p_durability, true),
            set_config('lock_timeout', '20s', true);
        PERFORM FROM minuet.sessions AS s
        WHERE s.tenant = p_tenant AND s.session = p_session AND s.seq = p_seq - 1
        FOR UPDATE;
        o_moved := NOT FOUND;
        IF o_moved THEN
            RETURN;
        END IF;
        SELECT array_agg(l.seq) INTO v_seqs
        FROM (
            -- Not asked for by tenant: an index that begins with it would be walked through.
            SELECT CASE WHEN r.tenant = p_tenant THEN r.seq END AS seq
            FROM minuet.runs AS r
            WHERE r.run = ANY (p_runs)
            ORDER BY r.run
            FOR UPDATE
        ) AS l;
        o_moved := coalesce(v_seqs, '{}') IS DISTINCT FROM p_seqs;
        IF o_moved THEN
            RETURN;
        END IF;
        o_now := coalesce(p_now, minuet.now_ms());
    END IF;

    IF p_advanced <> '{}' THEN
        UPDATE minuet.runs AS r
        SET counter = x.counter, seq = x.seq
        FROM unnest(p_advanced) AS x
        WHERE r.run = x.run;
    END IF;
    IF p_rewritten <> '{}' THEN
        UPDATE minuet.runs AS r
        SET plan = x.plan, status = x.status, counter = x.counter, seq = x.seq,
            generation = x.generation, input = coalesce(x.input, r.input),
            started_ms = x.started_ms,
            ended_ms = CASE WHEN p_seqs IS NULL OR x.ended_ms IS NULL THEN x.ended_ms ELSE o_now END,
            deadline_ms = x.deadline_ms,
            error = x.error, dead_letters = x.dead_letters
        FROM unnest(p_rewritten) AS x
        WHERE r.run = x.run;
    END IF;
    IF p_new_tokens <> '{}' THEN
        INSERT INTO minuet.tokens (
            run, node, scope, tenant, queue, state, skip, due_ms, hop, source, source_scope,
            reads, lane
        )
        SELECT x.run, x.node, x.scope, x.tenant, x.queue, 'ready', x.skip,
            CASE WHEN p_seqs IS NULL THEN x.due_ms ELSE o_now END, x.hop, x.source, x.source_scope, x.reads, x.lane
        FROM unnest(p_new_tokens) AS x;
    END IF;
    IF p_changed_tokens <> '{}' THEN
        UPDATE minuet.tokens AS t
        SET state = x.state, outcome = x.outcome, due_ms = x.due_ms, attempt = x.attempt,
            expiry = x.expiry, lease = x.lease, cursor = x.cursor, wait = x.wait,
            wait_key = x.wait_key, resolution = x.resolution, event = x.event, lane = x.lane,
            slot = x.slot, slot_limit = x.slot_limit
        FROM unnest(p_changed_tokens) AS x
        WHERE t.run = x.run AND t.node = x.node AND t.scope = x.scope
            AND (p_seqs IS NULL OR (t.state = 'leased' AND t.lease = x.lease));
        GET DIAGNOSTICS v_count = ROW_COUNT;
        IF v_count <> cardinality(p_changed_tokens) THEN
            RAISE EXCEPTION 'a token is not what it was';
        END IF;
    END IF;
    IF p_joins <> '{}' THEN
        INSERT INTO minuet.joins
        SELECT * FROM unnest(p_joins)
        ON CONFLICT (run, node, scope) DO UPDATE
        SET live = excluded.live, skipped = excluded.skipped, fired = excluded.fired,
            hop = excluded.hop;
    END IF;
    IF p_arrivals <> '{}' THEN
        INSERT INTO minuet.arrivals SELECT * FROM unnest(p_arrivals);
    END IF;
    IF p_events <> '{}' THEN
        INSERT INTO minuet.events
        SELECT x.run_id, x.seq, CASE WHEN p_seqs IS NULL THEN x.at_ms ELSE o_now END, x.data
        FROM unnest(p_events) AS x;
    END IF;
    IF p_session IS NOT NULL THEN
        UPDATE minuet.sessions AS s
        SET seq = p_seq, lease = p_lease, answer = p_answer, at_ms = o_now
        WHERE s.tenant = p_tenant AND s.session = p_session;
    END IF;

    FOR v_take IN 1 .. cardinality(p_take_limits) LOOP
        -- How many of each queue are among the oldest: then only those have to be locked.
        SELECT array_agg(x.queue), array_agg(x.quota) INTO v_queues, v_quotas
        FROM (
            SELECT c.queue, count(*) AS quota
            FROM (
                SELECT l.queue
                FROM unnest(p_take_places, p_take_queues) AS q (place, queue)
                CROSS JOIN LATERAL (
                    SELECT t.queue, t.due_ms, t.run, t.node, t.scope
                    FROM minuet.tokens AS t
                    WHERE t.state = 'ready'
                        AND t.lane = ''
                        AND t.tenant = p_tenant
                        AND t.queue = q.queue
                        AND t.due_ms <= o_now
                    ORDER BY t.due_ms, t.run, t.node, t.scope
                    LIMIT p_take_limits[v_take]
                ) AS l
                WHERE q.place = v_take
                ORDER BY l.due_ms, l.run, l.node, l.scope
                LIMIT p_take_limits[v_take]
            ) AS c
            GROUP BY c.queue
        ) AS x;
        CONTINUE WHEN v_queues IS NULL;
        WITH picked AS MATERIALIZED (
            SELECT l.*
            FROM unnest(v_queues, v_quotas) AS q (queue, quota)
            CROSS JOIN LATERAL (
                SELECT t.run, t.node, t.scope, t.due_ms
                FROM minuet.tokens AS t
                WHERE t.state = 'ready'
                    AND t.lane = ''
                    AND t.tenant = p_tenant
                    AND t.queue = q.queue
                    AND t.due_ms <= o_now
                ORDER BY t.due_ms, t.run, t.node, t.scope
                LIMIT q.quota
                FOR UPDATE SKIP LOCKED
            ) AS l
        ),
        leased AS (
            UPDATE minuet.tokens AS t
            SET state = 'leased', lease = p_lease, session = p_session, due_ms = o_now + p_lease_ms,
                taken_ms = o_now, delivery = t.delivery + 1
            FROM picked AS p
            WHERE t.run = p.run AND t.node = p.node AND t.scope = p.scope
            RETURNING
                ROW(
                    t.run, t.node, t.scope, t.queue, t.skip, t.hop, t.attempt, t.expiry,
                    t.delivery, t.source, t.source_scope, t.reads, t.cursor, t.resolution,
                    t.event, t.slot, t.slot_limit
                )::minuet.token_taken AS token,
                p.due_ms, p.run, p.node, p.scope
        )
        SELECT array_agg(l.token ORDER BY l.due_ms, l.run, l.node, l.scope) INTO v_taken
        FROM leased AS l;
        o_granted := o_granted || v_taken;
    END LOOP;

    IF o_granted IS NOT NULL THEN
        o_outputs := minuet.outputs_of(o_granted);
    END IF;
    IF o_granted IS NOT NULL OR p_headers <> '{}' THEN
        SELECT array_agg(r) INTO o_runs
        FROM minuet.runs AS r
        WHERE r.run = ANY (
            p_headers || ARRAY(
                -- What the caller has worked out on, it knows.
                SELECT g.run FROM unnest(o_granted) AS g EXCEPT SELECT * FROM unnest(p_runs)
            )
        );
    END IF;
END
$$;
