-- Writing what a step has changed on rows that it has loaded, and taking the next tokens.

CREATE TYPE minuet.run_advance AS (run text, counter integer, seq integer);

CREATE TYPE minuet.run_change AS (
    run text, plan text, status minuet.run_status, counter integer, seq integer, generation integer,
    input bytea, started_ms bigint, ended_ms bigint, deadline_ms bigint, error text,
    dead_letters integer
);

CREATE TYPE minuet.token_new AS (
    run text, node text, scope text, tenant text, queue text, skip boolean, due_ms bigint,
    hop integer, source text, source_scope text, reads text, lane minuet.token_lane,
    source_event integer
);

CREATE TYPE minuet.token_change AS (
    run text, node text, scope text, state minuet.token_state, outcome minuet.token_outcome,
    due_ms bigint, attempt integer, expiry integer, lease text, cursor bigint, wait text,
    wait_key bytea, resolution bytea, event integer, lane minuet.token_lane, slot bytea,
    slot_limit bigint
);

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
    p_take_queues text[]
) RETURNS SETOF minuet.granted LANGUAGE plpgsql VOLATILE
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
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
        SET plan = x.plan, status = x.status, counter = x.counter, seq = x.seq,
            generation = x.generation, input = coalesce(x.input, r.input),
            started_ms = x.started_ms, ended_ms = x.ended_ms, deadline_ms = x.deadline_ms,
            error = x.error, dead_letters = x.dead_letters
        FROM unnest(p_rewritten) AS x
        WHERE r.run = x.run;
    END IF;
    IF p_new_tokens <> '{}' THEN
        INSERT INTO minuet.tokens (
            run, node, scope, tenant, queue, state, skip, due_ms, hop, source, source_scope,
            reads, lane, source_event
        )
        SELECT x.run, x.node, x.scope, x.tenant, x.queue, 'ready', x.skip, x.due_ms, x.hop,
            x.source, x.source_scope, x.reads, x.lane, x.source_event
        FROM unnest(p_new_tokens) AS x;
    END IF;
    IF p_changed_tokens <> '{}' THEN
        UPDATE minuet.tokens AS t
        SET state = x.state, outcome = x.outcome, due_ms = x.due_ms, attempt = x.attempt,
            expiry = x.expiry, lease = x.lease, cursor = x.cursor, wait = x.wait,
            wait_key = x.wait_key, resolution = x.resolution, event = x.event, lane = x.lane,
            slot = x.slot, slot_limit = x.slot_limit
        FROM unnest(p_changed_tokens) AS x
        WHERE t.run = x.run AND t.node = x.node AND t.scope = x.scope;
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
        INSERT INTO minuet.events SELECT * FROM unnest(p_events);
    END IF;
    IF p_session IS NOT NULL THEN
        UPDATE minuet.sessions AS s
        SET seq = p_seq, lease = p_lease, answer = p_answer, at_ms = p_now
        WHERE s.tenant = p_tenant AND s.session = p_session;
    END IF;
    RETURN QUERY
    SELECT *
    FROM minuet.take_rows(
        p_tenant, p_session, p_lease, p_now, p_lease_ms, p_take_limits, p_take_places,
        p_take_queues
    );
END
$$;
