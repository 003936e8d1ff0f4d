-- Slots that tokens of these runs hold or wait for, and others that are named; and how many of
-- those tokens hold each.
CREATE FUNCTION minuet.slots_of(
    p_tenant text, p_runs text[], p_slot_tenants text[], p_slots bytea[]
) RETURNS TABLE (tenant text, slot bytea, held bigint) LANGUAGE sql STABLE AS $$
    SELECT x.tenant, x.slot, sum(x.held)
    FROM (
        SELECT t.tenant, t.slot, (t.lane <> 'slot')::int AS held
        FROM minuet.tokens AS t
        WHERE t.slot <> ''
            AND t.run = ANY (p_runs)
            AND (p_tenant IS NULL OR t.tenant = p_tenant)
        UNION ALL
        SELECT s.tenant, s.slot, 0
        FROM unnest(p_slot_tenants, p_slots) AS s (tenant, slot)
    ) AS x
    GROUP BY x.tenant, x.slot
$$;

CREATE FUNCTION minuet.slot_lock(tenant text, slot bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(tenant || '/' || encode(slot, 'hex'), 0)
$$;
