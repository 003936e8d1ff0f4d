-- Recording steps in one call, if nothing stands in the way: each token is leased under the lease that
-- its step names, no step of these names is recorded, and all that they follow are. Otherwise nothing is changed, and the caller
-- does the same by `load_rows` and `write_rows`, where the rules (`Transition`) decide.
--
-- No row: something stands in the way. Otherwise the event numbers of the runs afterwards.
CREATE FUNCTION minuet.record_rows(
    p_tenant text,
    p_now bigint,
    p_durability text,
    p_runs text[],
    p_nodes text[],
    p_scopes text[],
    p_leases text[],
    p_names bytea[],
    p_values bytea[],
    p_events bytea[],
    p_afters bytea[]
) RETURNS TABLE (o_run text, o_seq integer) LANGUAGE plpgsql VOLATILE
{planning}
AS $$
DECLARE
    v_count bigint;
    v_now bigint;
BEGIN
    PERFORM set_config('synchronous_commit', p_durability, true),
        set_config('lock_timeout', '20s', true);
    -- In the order of locks. Of whom they are, their tokens say.
    PERFORM FROM minuet.runs AS r
    WHERE r.run = ANY (p_runs)
    ORDER BY r.run
    FOR UPDATE;
    v_now := coalesce(p_now, minuet.now_ms());
    SELECT count(*) INTO v_count
    FROM unnest(p_runs, p_nodes, p_scopes, p_leases) AS x (run, node, scope, lease)
    JOIN minuet.tokens AS t ON t.run = x.run AND t.node = x.node AND t.scope = x.scope
    WHERE t.state = 'leased' AND t.lease = x.lease AND t.tenant = p_tenant;
    IF v_count <> cardinality(p_runs) THEN
        RETURN;
    END IF;
    -- Under the locks of their runs, nobody else records one.
    IF EXISTS (
        SELECT
        FROM unnest(p_runs, p_nodes, p_scopes, p_names) AS x (run, node, scope, name)
        JOIN minuet.steps AS s USING (run, node, scope, name)
    ) THEN
        RETURN;
    END IF;
    IF EXISTS (
        SELECT
        FROM unnest(p_runs, p_nodes, p_scopes, p_afters) AS x (run, node, scope, name)
        LEFT JOIN minuet.steps AS s USING (run, node, scope, name)
        WHERE x.name <> '' AND s.value IS NULL
    ) THEN
        RETURN;
    END IF;
    INSERT INTO minuet.steps (run, node, scope, name, value)
    SELECT * FROM unnest(p_runs, p_nodes, p_scopes, p_names, p_values);
    INSERT INTO minuet.events (run_id, seq, at_ms, data)
    SELECT r.id, r.seq + row_number() OVER (PARTITION BY x.run ORDER BY x.place), v_now, x.data
    FROM unnest(p_runs, p_events) WITH ORDINALITY AS x (run, data, place)
    JOIN minuet.runs AS r ON r.run = x.run;
    RETURN QUERY
    UPDATE minuet.runs AS r
    SET seq = r.seq + x.added
    FROM (SELECT u.run, count(*)::integer AS added FROM unnest(p_runs) AS u (run) GROUP BY 1) AS x
    WHERE r.run = x.run
    RETURNING r.run, r.seq;
END
$$;
