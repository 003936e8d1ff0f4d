-- The outputs that come with a token, without their data. Each step down is a subquery with a
-- limit, so that no plan can begin with the tokens or events of the whole run.
CREATE FUNCTION minuet.outputs_of(t minuet.tokens, p_run_id bigint)
RETURNS SETOF minuet.output LANGUAGE sql STABLE AS $$
    SELECT o.kind, o.position, o.node, o.scope, p_run_id, e.seq, e.bytes
    FROM (
        -- From the one node that made it ready.
        SELECT 0 AS kind, 0 AS position, t.source AS node, t.source_scope AS scope, CASE
            -- A patch may have delivered before its source had an output: then the source knows.
            WHEN t.source_event > 0 THEN t.source_event
            ELSE (
                SELECT s.event FROM minuet.tokens AS s
                WHERE s.run = t.run AND s.node = t.source AND s.scope = t.source_scope
            )
        END AS event
        WHERE t.source <> '' AND NOT t.skip
        UNION ALL
        -- What arrived at a join.
        SELECT 0, 0, a.source, a.source_scope, s.event
        FROM (
            SELECT x.source, x.source_scope
            FROM minuet.arrivals AS x
            WHERE t.source = '' AND NOT t.skip
                AND x.run = t.run AND x.node = t.node AND x.scope = t.scope
                AND x.live AND NOT x.late
            OFFSET 0
        ) AS a
        CROSS JOIN LATERAL (
            SELECT s.event FROM minuet.tokens AS s
            WHERE s.run = t.run AND s.node = a.source AND s.scope = a.source_scope
            LIMIT 1
        ) AS s
        UNION ALL
        -- What it reads.
        SELECT
            CASE WHEN w.every AND s.outcome = 'failed' THEN 3 ELSE 1 END,
            w.position::integer, s.node, s.scope, s.event
        FROM (
            SELECT r.node, r.prefix, r.upto, r.every, r.position FROM minuet.reads_of(t.reads) AS r
        ) AS w
        CROSS JOIN LATERAL (
            SELECT x.node, x.scope, x.event, x.outcome
            FROM minuet.tokens AS x
            WHERE x.run = t.run
                AND x.node = w.node
                AND x.scope >= w.prefix
                AND x.scope < w.prefix || chr(1114111)
                AND x.event > 0
                AND (x.event <= w.upto OR w.upto IS NULL)
                AND NOT x.skip
            ORDER BY x.scope DESC
            LIMIT CASE WHEN w.every THEN NULL ELSE 1 END
        ) AS s
        UNION ALL
        -- Its own, of which a part has been sent.
        SELECT 2, 0, t.node, t.scope, t.event
        WHERE t.cursor > 0
    ) AS o
    CROSS JOIN LATERAL (
        SELECT x.seq, octet_length(x.data)::bigint AS bytes FROM minuet.events AS x
        WHERE x.run_id = p_run_id AND x.seq = o.event
        LIMIT 1
    ) AS e
$$;
