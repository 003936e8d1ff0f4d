-- What a token reads is fixed when it becomes ready: a read names the event that made it so, and
-- finds no output of a later one. A read of an earlier version names none.

CREATE OR REPLACE FUNCTION minuet.outputs_of(
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
        SELECT r.value ->> 0 AS node, r.value ->> 1 AS prefix,
            nullif((r.value ->> 2)::integer, 0) AS upto, r.ordinality AS position
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
            AND (t.event <= w.upto OR w.upto IS NULL)
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
