-- Taking tokens: lease the oldest that are free, and return them with all that a worker needs.
--
-- These rules are written in SQL because the rows to take are found, locked and leased in one step:
-- which tokens may be taken and in what order, what a lease sets, and (`fit_rows`, `outputs_of`) what
-- comes with a token and how much fits into an answer. `memory` has them in Python, with `reply.Room`;
-- `tests/differential` compares the two.
--
-- `p_queues` has the queues of each take as the text of an array, because the driver takes long to send
-- many values and these are the same in each call. `p_runs`: tokens of these only; null: of any run.
-- `p_lease_lengths`: an object of lengths by queue; others are `p_lease_ms`.
--
-- Called by functions that set how plans are made.
CREATE FUNCTION minuet.take_rows(
    p_tenant text,
    p_session text,
    p_lease text,
    p_now bigint,
    p_lease_ms bigint,
    p_limits integer[],
    p_queues text[],
    p_runs text[],
    p_lease_lengths jsonb
) RETURNS SETOF minuet.granted LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_asked text[];
    v_queues text[];
    v_quotas bigint[];
    v_places tid[];
    v_fits minuet.fit[];
    v_heavy boolean;
    v_picked bigint;
    v_first boolean := true;
    v_left bigint := {reply_bytes_max};
BEGIN
    FOR v_take IN 1 .. cardinality(p_limits) LOOP
        v_asked := p_queues[v_take];
        -- Those that have something: mostly it is one, and need not be counted.
        SELECT array_agg(q.queue) INTO v_queues
        FROM unnest(v_asked) AS q (queue)
        CROSS JOIN LATERAL (SELECT FROM minuet.tokens AS t WHERE {free_tokens} LIMIT 1) AS l;
        CONTINUE WHEN v_queues IS NULL;
        v_quotas := ARRAY[p_limits[v_take]];
        IF cardinality(v_queues) > 1 THEN
            -- How many of each queue are among the oldest: then only those have to be locked.
            SELECT array_agg(x.queue), array_agg(x.quota) INTO v_queues, v_quotas
            FROM (
                SELECT c.queue, count(*) AS quota
                FROM (
                    SELECT l.queue
                    FROM unnest(v_queues) AS q (queue)
                    CROSS JOIN LATERAL (
                        SELECT t.queue, t.due_ms, t.run, t.node, t.scope
                        FROM minuet.tokens AS t
                        WHERE {free_tokens}
                        LIMIT p_limits[v_take]
                    ) AS l
                    ORDER BY l.due_ms, l.run, l.node, l.scope
                    LIMIT p_limits[v_take]
                ) AS c
                GROUP BY c.queue
            ) AS x;
        END IF;
        CONTINUE WHEN v_queues IS NULL;
        SELECT
            array_agg(l.place ORDER BY l.due_ms, l.run, l.node, l.scope), bool_or(l.is_heavy)
        INTO v_places, v_heavy
        FROM unnest(v_queues, v_quotas) AS q (queue, quota)
        CROSS JOIN LATERAL (
            SELECT
                t.ctid AS place, t.due_ms, t.run, t.node, t.scope,
                -- Whether it may need more than one output, or one that is large or has to be searched.
                t.reads IS NOT NULL OR t.cursor > 0 OR (t.source_event = 0 AND t.hop > 0) AS is_heavy
            FROM minuet.tokens AS t
            WHERE {free_tokens}
            LIMIT q.quota
            FOR UPDATE SKIP LOCKED
        ) AS l;
        CONTINUE WHEN v_places IS NULL;
        v_picked := cardinality(v_places);
        v_fits := '{}';
        -- As many small outputs, one for each token, fit in any case.
        v_heavy := v_heavy OR v_picked > {light_tokens_max};
        IF v_heavy THEN
            SELECT f.o_fits, f.o_left INTO v_fits, v_left
            FROM minuet.fit_rows(v_places, v_left, v_first) AS f;
            v_places := v_places[1 : cardinality(v_fits)];
        END IF;
        EXIT WHEN v_places = '{}';
        v_first := false;
        RETURN QUERY
        WITH leased AS (
            -- Where a row lies does not change while it is locked.
            UPDATE minuet.tokens AS t
            SET state = 'leased', lease = p_lease, session = p_session,
                due_ms = p_now + coalesce((p_lease_lengths -> t.queue)::bigint, p_lease_ms),
                taken_ms = p_now, delivery = t.delivery + 1
            FROM unnest(v_places, v_fits) WITH ORDINALITY AS p (place, fit, outputs, oversize, n)
            WHERE t.ctid = p.place
            RETURNING
                t.ctid AS place, p.n, p.outputs, p.oversize, {t.granted_token}, t.source_event
        )
        SELECT
            {l.granted_token}, p_now, l.place,
            -- Not a join: that might scan all events of the run.
            CASE WHEN l.is_new_source AND l.outputs IS NULL AND l.source_event > 0 THEN (
                SELECT e.data FROM minuet.events AS e
                WHERE e.run_id = r.id AND e.seq = l.source_event
            ) END,
            l.outputs, coalesce(l.oversize, 0), r.id, {r.granted_run},
            CASE WHEN l.is_new_run THEN r.input END
        FROM (
            -- Inputs and outputs may be large: once is enough for tokens of the same run or source.
            -- Found before runs are joined, because rows are copied for this.
            SELECT *,
                lag(run) OVER w IS DISTINCT FROM run AS is_new_run,
                (lag(run) OVER w, lag(source_event) OVER w)
                    IS DISTINCT FROM (run, source_event) AS is_new_source
            FROM leased
            WINDOW w AS (ORDER BY n)
        ) AS l
        JOIN minuet.runs AS r ON r.run = l.run
        ORDER BY l.n;
        IF v_heavy THEN
            RETURN QUERY SELECT * FROM minuet.data_rows(v_fits);
        END IF;
        EXIT WHEN cardinality(v_places) < v_picked;
    END LOOP;
END
$$;
