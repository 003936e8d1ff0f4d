-- What a repeated call was granted and has not lost since, as it was granted.
CREATE FUNCTION minuet.leased_rows(p_lease text, p_tenant text)
RETURNS SETOF minuet.granted LANGUAGE plpgsql STABLE
{planning}
AS $$
DECLARE
    v_places tid[];
    v_fits minuet.fit[];
BEGIN
    SELECT array_agg(t.ctid ORDER BY t.run, t.node, t.scope) INTO v_places
    FROM minuet.tokens AS t
    WHERE t.state = 'leased' AND t.lease = p_lease AND t.tenant = p_tenant;
    IF v_places IS NULL THEN
        RETURN;
    END IF;
    -- All of it has fitted before.
    SELECT f.o_fits INTO v_fits FROM minuet.fit_rows(v_places, 9223372036854775807, true) AS f;
    RETURN QUERY
    SELECT
        {t.granted_token}, t.taken_ms, t.ctid, NULL::bytea, p.outputs, p.oversize,
        r.id, {r.granted_run}, r.input
    FROM unnest(v_fits) AS p (place, outputs, oversize)
    JOIN minuet.tokens AS t ON t.ctid = p.place
    JOIN minuet.runs AS r ON r.run = t.run
    ORDER BY t.run, t.node, t.scope;
    RETURN QUERY SELECT * FROM minuet.data_rows(v_fits);
END
$$;
