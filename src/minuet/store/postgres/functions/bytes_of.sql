-- The bytes of the outputs that come with tokens which need one each, at most.
--
-- Called by functions that set how plans are made.
CREATE FUNCTION minuet.bytes_of(p_places tid[]) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT coalesce(sum(octet_length(e.data)), 0)
        FROM unnest(p_places) AS p (place)
        JOIN minuet.tokens AS t ON t.ctid = p.place
        CROSS JOIN LATERAL (SELECT r.id FROM minuet.runs AS r WHERE r.run = t.run LIMIT 1) AS r
        CROSS JOIN LATERAL (
            SELECT x.data FROM minuet.events AS x
            WHERE x.run_id = r.id AND x.seq = t.source_event
            LIMIT 1
        ) AS e
    );
END
$$;
