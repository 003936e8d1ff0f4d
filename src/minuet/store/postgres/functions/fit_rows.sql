-- Find the outputs of tokens, and leave out those at the end whose outputs do not fit into what is
-- left of the answer. An output counts once. The first token of an answer always fits: what is
-- too large even for that comes without its outputs.
CREATE FUNCTION minuet.fit_rows(
    p_picked tid[], p_left bigint, p_first boolean,
    OUT o_fits minuet.fit[], OUT o_left bigint
) LANGUAGE plpgsql STABLE
{planning}
AS $$
DECLARE
    v_count bigint;
    v_used bigint;
BEGIN
    SELECT array_agg(
        CASE WHEN o.bytes > {input_bytes_max}
            THEN ROW(x.place, o.own, o.bytes)::minuet.fit
            ELSE ROW(x.place, o.outputs, 0)::minuet.fit
        END ORDER BY x.n
    ) INTO o_fits
    FROM unnest(p_picked) WITH ORDINALITY AS x (place, n)
    JOIN minuet.tokens AS t ON t.ctid = x.place
    CROSS JOIN LATERAL (SELECT r.id FROM minuet.runs AS r WHERE r.run = t.run LIMIT 1) AS r
    CROSS JOIN LATERAL (
        -- Its own output is only there while a fan-out goes on, and does not count.
        SELECT coalesce(array_agg(o::minuet.output), '{}') AS outputs,
            coalesce(array_agg(o::minuet.output) FILTER (WHERE o.kind = 2), '{}') AS own,
            coalesce(sum(o.bytes) FILTER (WHERE o.kind <> 2), 0) AS bytes
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
                FROM unnest(o_fits) WITH ORDINALITY AS f (place, outputs, oversize, n)
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
