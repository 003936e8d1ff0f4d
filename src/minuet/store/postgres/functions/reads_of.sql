-- What a token reads; nothing when that cannot be read.
CREATE FUNCTION minuet.reads_of(p_reads text)
RETURNS TABLE (node text, prefix text, upto integer, every boolean, "position" bigint)
LANGUAGE plpgsql STRICT IMMUTABLE AS $$
BEGIN
    RETURN QUERY
        SELECT
            r.value ->> 0, r.value ->> 1, nullif((r.value ->> 2)::integer, 0),
            coalesce((r.value ->> 3)::boolean, false), r.ordinality
        FROM jsonb_array_elements(p_reads::jsonb) WITH ORDINALITY AS r;
EXCEPTION WHEN data_exception THEN
    RETURN;
END
$$;
