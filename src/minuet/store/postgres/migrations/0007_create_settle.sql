-- An exchange in one call. Nothing is loaded for it: the caller has worked it out on rows that it
-- knew, and says on which event numbers its answer rests. It holds if neither its session, nor
-- one of its runs, nor one of its tokens has moved since.

-- Event numbers before and after.
CREATE TYPE minuet.run_step AS (run text, known_seq integer, counter integer, seq integer);

CREATE TYPE minuet.token_begun AS (
    run text, node text, scope text, queue text, skip boolean, hop integer, source text,
    source_scope text, reads text, lane minuet.token_lane, source_event integer
);

-- With the place of its row: it is looked for nowhere else.
CREATE TYPE minuet.token_settled AS (
    place tid, run text, node text, scope text, lease text, outcome minuet.token_outcome,
    event integer
);

CREATE TYPE minuet.event_new AS (run_id bigint, seq integer, data bytea);

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
    p_events minuet.event_new[],
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
    v_head minuet.granted;
    v_now bigint;
BEGIN
    PERFORM set_config('synchronous_commit', p_durability, true),
        set_config('lock_timeout', '20s', true);
    -- Not older than any event of these runs: whoever wrote one after this makes it fail.
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
            SET counter = x.counter, seq = x.seq,
                status = CASE WHEN x.counter = 0 THEN 'COMPLETED' ELSE r.status END,
                ended_ms = CASE WHEN x.counter = 0 THEN v_now END,
                deadline_ms = CASE WHEN x.counter > 0 THEN r.deadline_ms END
            FROM unnest(p_runs) AS x
            WHERE r.run = x.run AND r.seq = x.known_seq
                AND CASE WHEN r.tenant = p_tenant THEN true ELSE false END;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            IF v_count <> cardinality(p_runs) THEN
                RAISE EXCEPTION USING ERRCODE = 'MNT01';
            END IF;
            -- Written so that no index fits: the place is the shortest way to the row.
            UPDATE minuet.tokens AS t
            SET state = 'done', outcome = x.outcome, due_ms = NULL, event = x.event
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
            INSERT INTO minuet.tokens (
                run, node, scope, tenant, queue, state, skip, due_ms, hop, source, source_scope,
                reads, lane, source_event
            )
            SELECT x.run, x.node, x.scope, p_tenant, x.queue, 'ready', x.skip, v_now, x.hop,
                x.source, x.source_scope, x.reads, x.lane, x.source_event
            FROM unnest(p_begun) AS x;
        END IF;
    EXCEPTION
        -- A token that is there already is met in the ordinary way as well.
        WHEN SQLSTATE 'MNT01' OR unique_violation THEN
            RETURN;
    END;
    IF p_events <> '{}' THEN
        INSERT INTO minuet.events
        SELECT x.run_id, x.seq, v_now, x.data
        FROM unnest(p_events) AS x;
    END IF;
    v_head.taken_ms := v_now;
    RETURN NEXT v_head;
    RETURN QUERY
    SELECT *
    FROM minuet.take_rows(
        p_tenant, p_session, p_lease, v_now, p_lease_ms, p_take_limits, p_take_places,
        p_take_queues
    );
END
$$;
