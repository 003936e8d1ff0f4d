-- The data of all outputs of these tokens, each once: rows without a token.
CREATE FUNCTION minuet.data_rows(p_fits minuet.fit[]) RETURNS SETOF minuet.granted
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row minuet.granted;
BEGIN
    FOR v_row.run_id, v_row.event, v_row.data IN
        SELECT u.run_id, u.event, e.data
        FROM (
            SELECT DISTINCT o.run_id, o.event
            FROM unnest(p_fits) AS f CROSS JOIN LATERAL unnest(f.outputs) AS o
        ) AS u
        CROSS JOIN LATERAL (
            SELECT x.data FROM minuet.events AS x
            WHERE x.run_id = u.run_id AND x.seq = u.event
            LIMIT 1
        ) AS e
    LOOP
        RETURN NEXT v_row;
    END LOOP;
END
$$;
