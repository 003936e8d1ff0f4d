-- Taking tokens: lease the oldest that are free, and return them with all that a worker needs.

-- kind 0: it arrived; 1: the token's node reads it, at this position; 2: it is the token's own.
CREATE TYPE minuet.output AS (
    kind integer, position integer, node text, scope text, data bytea
);

-- A token that was taken, without what the taker has said itself; where its row lies; the event
-- with the output that made it ready, and other outputs that come with it; and its run. Rows and
-- not arrays of them: those are sent much more slowly.
CREATE TYPE minuet.granted AS (
    taken_ms bigint, place tid, run text, node text, scope text, queue text, skip boolean,
    hop integer, attempt integer, expiry integer, delivery integer, source text,
    source_scope text, reads text, cursor bigint, resolution bytea, event integer, slot bytea,
    slot_limit bigint, data bytea, outputs minuet.output[],
    run_id bigint, workflow text, plan text, status minuet.run_status, counter integer,
    seq integer, generation integer, input bytea, tags text, created_ms bigint,
    deadline_ms bigint
);

-- The outputs that come with a token beside that of the one node which made it ready.
CREATE FUNCTION minuet.outputs_of(
    p_run text, p_run_id bigint, p_node text, p_scope text, p_joined boolean, p_reads text,
    p_own integer
) RETURNS SETOF minuet.output LANGUAGE sql STABLE AS $$
    SELECT 0, 0, s.node, s.scope, e.data
    FROM minuet.arrivals AS a
    JOIN minuet.tokens AS s ON s.run = a.run AND s.node = a.source AND s.scope = a.source_scope
    JOIN minuet.events AS e ON e.run_id = p_run_id AND e.seq = s.event
    WHERE p_joined
        AND a.run = p_run AND a.node = p_node AND a.scope = p_scope AND a.live AND NOT a.late
    UNION ALL
    SELECT 1, w.position::integer, s.node, s.scope, e.data
    FROM (
        SELECT r.value ->> 0 AS node, r.value ->> 1 AS prefix, r.ordinality AS position
        FROM jsonb_array_elements(p_reads::jsonb) WITH ORDINALITY AS r
    ) AS w
    CROSS JOIN LATERAL (
        SELECT t.node, t.scope, t.event
        FROM minuet.tokens AS t
        WHERE t.run = p_run
            AND t.node = w.node
            AND t.scope >= w.prefix
            AND t.scope < w.prefix || chr(1114111)
            AND t.event > 0
            AND NOT t.skip
        ORDER BY t.scope DESC
        LIMIT 1
    ) AS s
    JOIN minuet.events AS e ON e.run_id = p_run_id AND e.seq = s.event
    UNION ALL
    SELECT 2, 0, p_node, p_scope, e.data
    FROM minuet.events AS e
    WHERE e.run_id = p_run_id AND e.seq = p_own
$$;

-- Called by functions that set how plans are made.
CREATE FUNCTION minuet.take_rows(
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
BEGIN
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
        RETURN QUERY
        WITH picked AS MATERIALIZED (
            SELECT l.*
            FROM unnest(v_queues, v_quotas) AS q (queue, quota)
            CROSS JOIN LATERAL (
                SELECT t.ctid AS place, t.due_ms
                FROM minuet.tokens AS t
                WHERE t.state = 'ready'
                    AND t.lane = ''
                    AND t.tenant = p_tenant
                    AND t.queue = q.queue
                    AND t.due_ms <= p_now
                ORDER BY t.due_ms, t.run, t.node, t.scope
                LIMIT q.quota
                FOR UPDATE SKIP LOCKED
            ) AS l
        ),
        leased AS (
            -- Where a row lies does not change while it is locked.
            UPDATE minuet.tokens AS t
            SET state = 'leased', lease = p_lease, session = p_session, due_ms = p_now + p_lease_ms,
                taken_ms = p_now, delivery = t.delivery + 1
            FROM picked AS p
            WHERE t.ctid = p.place
            RETURNING
                t.ctid AS place, p.due_ms, t.run, t.node, t.scope, t.queue, t.skip, t.hop,
                t.attempt, t.expiry, t.delivery, t.source, t.source_scope, t.reads, t.cursor,
                t.resolution, t.event, t.slot, t.slot_limit, t.source_event
        )
        SELECT
            p_now, l.place, l.run, l.node, l.scope, l.queue, l.skip, l.hop, l.attempt, l.expiry,
            l.delivery, l.source, l.source_scope, l.reads, l.cursor, l.resolution, l.event,
            l.slot, l.slot_limit,
            -- Not a join: that might look through all events of the run.
            -- A patch may have delivered before its source had an output: then the source knows.
            (
                SELECT e.data FROM minuet.events AS e
                WHERE e.run_id = r.id AND e.seq = CASE
                    WHEN l.source_event > 0 OR l.source = '' THEN l.source_event
                    ELSE (
                        SELECT s.event FROM minuet.tokens AS s
                        WHERE s.run = l.run AND s.node = l.source AND s.scope = l.source_scope
                    )
                END
            ),
            CASE WHEN l.reads IS NOT NULL OR l.cursor > 0 OR (l.source = '' AND l.hop > 0) THEN
                (
                    SELECT array_agg(o::minuet.output)
                    FROM minuet.outputs_of(
                        l.run, r.id, l.node, l.scope, l.source = '' AND NOT l.skip, l.reads,
                        CASE WHEN l.cursor > 0 THEN l.event END
                    ) AS o
                )
            END,
            r.id, r.workflow, r.plan, r.status, r.counter, r.seq, r.generation,
            -- It may be large: once is enough for tokens of the same run.
            CASE WHEN lag(l.run) OVER w IS DISTINCT FROM l.run THEN r.input END,
            r.tags, r.created_ms, r.deadline_ms
        FROM leased AS l
        JOIN minuet.runs AS r ON r.run = l.run
        WINDOW w AS (ORDER BY l.due_ms, l.run, l.node, l.scope)
        ORDER BY l.due_ms, l.run, l.node, l.scope;
    END LOOP;
END
$$;
