-- A take may be restricted to some runs: their names stand in p_queues, at place 0, which comes
-- first. So a process of the version before, which names none, takes as it did.

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
                    AND (v_runs IS NULL OR t.run = ANY (v_runs))
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
