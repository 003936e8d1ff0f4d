-- What comes with tokens: fixed when they become ready, bounded in bytes, and sent once.
--
-- A read names the event that made its token ready, and finds no output of a later one (0, or
-- none at all: it finds the latest, as before). Tokens are granted as long as their outputs fit
-- into one answer. Grants name outputs by their events, whose data follows in rows of its own.

-- As in `store.records`, where they are explained.
CREATE FUNCTION minuet.reply_bytes_max() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 16777216';
CREATE FUNCTION minuet.input_bytes_max() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 67108864';

DROP FUNCTION minuet.outputs_of;

ALTER TYPE minuet.output
    DROP ATTRIBUTE data,
    ADD ATTRIBUTE run_id bigint,
    ADD ATTRIBUTE event integer,
    ADD ATTRIBUTE bytes bigint;

-- `oversize`: bytes of the outputs of a token, when they are too many to come with it.
ALTER TYPE minuet.granted ADD ATTRIBUTE oversize bigint;

-- A token to be leased; `outputs` is NULL as long as nobody has looked for them.
CREATE TYPE minuet.fit AS (
    place tid, due_ms bigint, outputs minuet.output[], oversize bigint
);

-- The outputs that come with a token, without their data. Each step down is a subquery with a
-- limit, so that no plan can begin with the tokens or events of the whole run.
CREATE FUNCTION minuet.outputs_of(t minuet.tokens, p_run_id bigint)
RETURNS SETOF minuet.output LANGUAGE sql STABLE AS $$
    SELECT 0, 0, t.source, t.source_scope, p_run_id, e.seq, octet_length(e.data)::bigint
    FROM minuet.events AS e
    WHERE t.source <> '' AND e.run_id = p_run_id AND e.seq = CASE
        -- A patch may have delivered before its source had an output: then the source knows.
        WHEN t.source_event > 0 THEN t.source_event
        ELSE (
            SELECT s.event FROM minuet.tokens AS s
            WHERE s.run = t.run AND s.node = t.source AND s.scope = t.source_scope
        )
    END
    UNION ALL
    SELECT 0, 0, a.source, a.source_scope, p_run_id, e.seq, e.bytes
    FROM (
        SELECT x.source, x.source_scope
        FROM minuet.arrivals AS x
        WHERE t.source = '' AND NOT t.skip
            AND x.run = t.run AND x.node = t.node AND x.scope = t.scope AND x.live AND NOT x.late
        OFFSET 0
    ) AS a
    CROSS JOIN LATERAL (
        SELECT s.event FROM minuet.tokens AS s
        WHERE s.run = t.run AND s.node = a.source AND s.scope = a.source_scope
        LIMIT 1
    ) AS s
    CROSS JOIN LATERAL (
        SELECT x.seq, octet_length(x.data)::bigint AS bytes FROM minuet.events AS x
        WHERE x.run_id = p_run_id AND x.seq = s.event
        LIMIT 1
    ) AS e
    UNION ALL
    SELECT 1, w.position::integer, s.node, s.scope, p_run_id, e.seq, e.bytes
    FROM (
        SELECT r.value ->> 0 AS node, r.value ->> 1 AS prefix,
            nullif((r.value ->> 2)::integer, 0) AS upto, r.ordinality AS position
        FROM jsonb_array_elements(t.reads::jsonb) WITH ORDINALITY AS r
    ) AS w
    CROSS JOIN LATERAL (
        SELECT x.node, x.scope, x.event
        FROM minuet.tokens AS x
        WHERE x.run = t.run
            AND x.node = w.node
            AND x.scope >= w.prefix
            AND x.scope < w.prefix || chr(1114111)
            AND x.event > 0
            AND (x.event <= w.upto OR w.upto IS NULL)
            AND NOT x.skip
        ORDER BY x.scope DESC
        LIMIT 1
    ) AS s
    CROSS JOIN LATERAL (
        SELECT x.seq, octet_length(x.data)::bigint AS bytes FROM minuet.events AS x
        WHERE x.run_id = p_run_id AND x.seq = s.event
        LIMIT 1
    ) AS e
    UNION ALL
    SELECT 2, 0, t.node, t.scope, p_run_id, e.seq, octet_length(e.data)::bigint
    FROM minuet.events AS e
    WHERE t.cursor > 0 AND e.run_id = p_run_id AND e.seq = t.event
$$;

-- Find the outputs of tokens, and leave out those at the end whose outputs do not fit into what is
-- left of the answer. An output counts once. The first token of an answer always fits: what is
-- too large even for that comes without its outputs.
CREATE FUNCTION minuet.fit_rows(
    p_picked minuet.fit[], p_left bigint, p_first boolean,
    OUT o_fits minuet.fit[], OUT o_left bigint
) LANGUAGE plpgsql STABLE
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_count bigint;
    v_used bigint;
BEGIN
    SELECT array_agg(
        CASE WHEN o.bytes > minuet.input_bytes_max()
            THEN ROW(x.place, x.due_ms, o.own, o.bytes)::minuet.fit
            ELSE ROW(x.place, x.due_ms, o.outputs, 0)::minuet.fit
        END ORDER BY x.n
    ) INTO o_fits
    FROM unnest(p_picked) WITH ORDINALITY AS x (place, due_ms, outputs, oversize, n)
    JOIN minuet.tokens AS t ON t.ctid = x.place
    CROSS JOIN LATERAL (SELECT r.id FROM minuet.runs AS r WHERE r.run = t.run LIMIT 1) AS r
    CROSS JOIN LATERAL (
        -- Its own output is only there while a fan-out goes on, and does not count.
        SELECT coalesce(array_agg(o::minuet.output), '{}') AS outputs,
            coalesce(array_agg(o::minuet.output) FILTER (WHERE o.kind = 2), '{}') AS own,
            coalesce(sum(o.bytes) FILTER (WHERE o.kind < 2), 0) AS bytes
        FROM minuet.outputs_of(t, r.id) AS o
    ) AS o;
    SELECT count(*), coalesce(max(y.total), 0) INTO v_count, v_used
    FROM (
        SELECT x.n, sum(x.bytes) OVER (ORDER BY x.n) AS total
        FROM (
            SELECT o.n, coalesce(sum(o.bytes) FILTER (WHERE o.nth = 1), 0) AS bytes
            FROM (
                SELECT f.n, u.bytes,
                    row_number() OVER (PARTITION BY u.run_id, u.event ORDER BY f.n) AS nth
                FROM unnest(o_fits) WITH ORDINALITY AS f (place, due_ms, outputs, oversize, n)
                LEFT JOIN LATERAL unnest(f.outputs) AS u ON true
            ) AS o
            GROUP BY o.n
        ) AS x
    ) AS y
    WHERE y.total <= p_left OR (p_first AND y.n = 1);
    o_fits := o_fits[1 : v_count];
    o_left := p_left - v_used;
END
$$;

-- The data of all outputs of these tokens, each once.
CREATE FUNCTION minuet.data_rows(p_fits minuet.fit[]) RETURNS SETOF minuet.granted
LANGUAGE sql STABLE AS $$
    SELECT
        NULL::bigint, NULL::tid, NULL::text, NULL::text, NULL::text, NULL::text, NULL::boolean,
        NULL::integer, NULL::integer, NULL::integer, NULL::integer, NULL::text, NULL::text,
        NULL::text, NULL::bigint, NULL::bytea, u.event, NULL::bytea, NULL::bigint, e.data,
        NULL::minuet.output[], u.run_id, NULL::text, NULL::text, NULL::minuet.run_status,
        NULL::integer, NULL::integer, NULL::integer, NULL::bytea, NULL::text, NULL::bigint,
        NULL::bigint, NULL::bigint
    FROM (
        SELECT DISTINCT o.run_id, o.event
        FROM unnest(p_fits) AS f CROSS JOIN LATERAL unnest(f.outputs) AS o
    ) AS u
    CROSS JOIN LATERAL (
        SELECT x.data FROM minuet.events AS x
        WHERE x.run_id = u.run_id AND x.seq = u.event
        LIMIT 1
    ) AS e
$$;

-- Called by functions that set how plans are made.
CREATE OR REPLACE FUNCTION minuet.take_rows(
    p_tenant text,
    p_session text,
    p_lease text,
    p_now bigint,
    p_lease_ms bigint,
    p_limits integer[],
    p_places integer[],
    p_queues text[]
) RETURNS SETOF minuet.granted LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queues text[];
    v_quotas bigint[];
    v_runs text[];
    v_fits minuet.fit[];
    v_heavy boolean;
    v_picked bigint;
    v_first boolean := true;
    v_left bigint := minuet.reply_bytes_max();
BEGIN
    IF p_places[1] = 0 THEN
        SELECT array_agg(q.queue) INTO v_runs
        FROM unnest(p_places, p_queues) AS q (place, queue)
        WHERE q.place = 0;
    END IF;
    FOR v_take IN 1 .. cardinality(p_limits) LOOP
        SELECT array_agg(q.queue) INTO v_queues
        FROM unnest(p_places, p_queues) AS q (place, queue)
        WHERE q.place = v_take;
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
                        WHERE t.state = 'ready'
                            AND t.lane = ''
                            AND t.tenant = p_tenant
                            AND t.queue = q.queue
                            AND t.due_ms <= p_now
                            AND (v_runs IS NULL OR t.run = ANY (v_runs))
                        ORDER BY t.due_ms, t.run, t.node, t.scope
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
            array_agg(
                ROW(l.place, l.due_ms, NULL, 0)::minuet.fit ORDER BY l.due_ms, l.run, l.node, l.scope
            ),
            bool_or(l.reads IS NOT NULL OR l.cursor > 0 OR (l.source = '' AND l.hop > 0))
        INTO v_fits, v_heavy
        FROM unnest(v_queues, v_quotas) AS q (queue, quota)
        CROSS JOIN LATERAL (
            SELECT
                t.ctid AS place, t.due_ms, t.run, t.node, t.scope, t.reads, t.cursor, t.source, t.hop
            FROM minuet.tokens AS t
            WHERE t.state = 'ready'
                AND t.lane = ''
                AND t.tenant = p_tenant
                AND t.queue = q.queue
                AND t.due_ms <= p_now
                AND (v_runs IS NULL OR t.run = ANY (v_runs))
            ORDER BY t.due_ms, t.run, t.node, t.scope
            LIMIT q.quota
            FOR UPDATE SKIP LOCKED
        ) AS l;
        CONTINUE WHEN v_fits IS NULL;
        v_picked := cardinality(v_fits);
        -- As many outputs, one for each token, fit in any case.
        IF v_heavy OR v_picked > 256 THEN
            SELECT f.o_fits, f.o_left INTO v_fits, v_left
            FROM minuet.fit_rows(v_fits, v_left, v_first) AS f;
        END IF;
        EXIT WHEN cardinality(v_fits) = 0;
        v_first := false;
        RETURN QUERY
        WITH leased AS (
            -- Where a row lies does not change while it is locked.
            UPDATE minuet.tokens AS t
            SET state = 'leased', lease = p_lease, session = p_session, due_ms = p_now + p_lease_ms,
                taken_ms = p_now, delivery = t.delivery + 1
            FROM unnest(v_fits) AS p (place, due_ms, outputs, oversize)
            WHERE t.ctid = p.place
            RETURNING
                t.ctid AS place, p.due_ms, p.outputs, p.oversize, t.run, t.node, t.scope, t.queue,
                t.skip, t.hop, t.attempt, t.expiry, t.delivery, t.source, t.source_scope, t.reads,
                t.cursor, t.resolution, t.event, t.slot, t.slot_limit, t.source_event
        )
        SELECT
            p_now, l.place, l.run, l.node, l.scope, l.queue, l.skip, l.hop, l.attempt, l.expiry,
            l.delivery, l.source, l.source_scope, l.reads, l.cursor, l.resolution, l.event,
            l.slot, l.slot_limit,
            -- Not a join: that might look through all events of the run. Once is enough for
            -- tokens of the same source.
            CASE WHEN l.outputs IS NULL AND l.source <> ''
                AND (lag(l.run) OVER w, lag(l.source) OVER w, lag(l.source_scope) OVER w)
                    IS DISTINCT FROM (l.run, l.source, l.source_scope)
            THEN (
                SELECT e.data FROM minuet.events AS e
                WHERE e.run_id = r.id AND e.seq = CASE
                    WHEN l.source_event > 0 THEN l.source_event
                    ELSE (
                        SELECT s.event FROM minuet.tokens AS s
                        WHERE s.run = l.run AND s.node = l.source AND s.scope = l.source_scope
                    )
                END
            ) END,
            l.outputs,
            r.id, r.workflow, r.plan, r.status, r.counter, r.seq, r.generation,
            -- It may be large: once is enough for tokens of the same run.
            CASE WHEN lag(l.run) OVER w IS DISTINCT FROM l.run THEN r.input END,
            r.tags, r.created_ms, r.deadline_ms, l.oversize
        FROM leased AS l
        JOIN minuet.runs AS r ON r.run = l.run
        WINDOW w AS (ORDER BY l.due_ms, l.run, l.node, l.scope)
        ORDER BY l.due_ms, l.run, l.node, l.scope;
        IF v_heavy OR v_picked > 256 THEN
            RETURN QUERY SELECT * FROM minuet.data_rows(v_fits);
        END IF;
        EXIT WHEN cardinality(v_fits) < v_picked;
    END LOOP;
END
$$;

-- What a repeated call was granted and has not lost since, as it was granted.
CREATE FUNCTION minuet.leased_rows(p_lease text, p_tenant text)
RETURNS SETOF minuet.granted LANGUAGE plpgsql STABLE
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_fits minuet.fit[];
BEGIN
    SELECT array_agg(ROW(t.ctid, 0, NULL, 0)::minuet.fit ORDER BY t.run, t.node, t.scope)
    INTO v_fits
    FROM minuet.tokens AS t
    WHERE t.state = 'leased' AND t.lease = p_lease AND t.tenant = p_tenant;
    IF v_fits IS NULL THEN
        RETURN;
    END IF;
    -- All of it has fitted before.
    SELECT f.o_fits INTO v_fits FROM minuet.fit_rows(v_fits, 9223372036854775807, true) AS f;
    RETURN QUERY
    SELECT
        t.taken_ms, t.ctid, t.run, t.node, t.scope, t.queue, t.skip, t.hop, t.attempt, t.expiry,
        t.delivery, t.source, t.source_scope, t.reads, t.cursor, t.resolution, t.event, t.slot,
        t.slot_limit, NULL::bytea, p.outputs,
        r.id, r.workflow, r.plan, r.status, r.counter, r.seq, r.generation, r.input, r.tags,
        r.created_ms, r.deadline_ms, p.oversize
    FROM unnest(v_fits) AS p (place, due_ms, outputs, oversize)
    JOIN minuet.tokens AS t ON t.ctid = p.place
    JOIN minuet.runs AS r ON r.run = t.run
    ORDER BY t.run, t.node, t.scope;
    RETURN QUERY SELECT * FROM minuet.data_rows(v_fits);
END
$$;
