-- The change feed. Each event says which transaction has written it. `feed.py` has the argument why
-- nothing is missed.

-- name: feed_moment
-- Which server and which history of it this is, and the transactions that are visible now. A standby
-- does not list those that are running: there, only what is older than all of them counts.
SELECT
    format('%s-%s-%s',
        (SELECT system_identifier FROM pg_control_system()),
        CASE WHEN pg_is_in_recovery()
            THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer
        END,
        'minuet.events'::regclass::oid),
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint),
    pg_is_in_recovery();

-- name: read_feed
-- Events of transactions in a list, and from a number up to another one; and who wrote the event before.
SELECT
    e.written_by::text::bigint,
    (
        SELECT p.written_by::text::bigint FROM minuet.events AS p
        WHERE p.run_id = e.run_id AND p.seq = e.seq - 1
    ),
    r.tenant, r.workflow, r.run, {e.event}
FROM (
    SELECT * FROM minuet.events WHERE written_by = ANY ($1::text[]::xid8[])
    UNION ALL
    (
        SELECT * FROM minuet.events
        WHERE written_by >= $2::text::xid8 AND written_by < $3::text::xid8
        ORDER BY written_by
        LIMIT $4
    )
) AS e
CROSS JOIN LATERAL (
    SELECT x.tenant, x.workflow, x.run FROM minuet.runs AS x WHERE x.id = e.run_id LIMIT 1
) AS r;

-- name: read_record_feed
SELECT
    e.written_by::text::bigint,
    (
        SELECT p.written_by::text::bigint FROM minuet.record_events AS p
        WHERE p.run = e.run AND p.seq = e.seq - 1
    ),
    r.tenant, r.workflow, r.run, {e.event}
FROM (
    SELECT * FROM minuet.record_events WHERE written_by = ANY ($1::text[]::xid8[])
    UNION ALL
    (
        SELECT * FROM minuet.record_events
        WHERE written_by >= $2::text::xid8 AND written_by < $3::text::xid8
        ORDER BY written_by
        LIMIT $4
    )
) AS e
CROSS JOIN LATERAL (
    SELECT x.tenant, x.workflow, x.run FROM minuet.record_runs AS x WHERE x.run = e.run LIMIT 1
) AS r;

-- name: is_feed_ours
SELECT system = (SELECT system_identifier FROM pg_control_system()) FROM minuet.feed_origin;

-- name: renumber_feed
-- The tables come from another server, and so do the numbers of transactions in them.
ALTER TABLE minuet.events DROP COLUMN written_by;
ALTER TABLE minuet.events ADD COLUMN written_by xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX events_newest ON minuet.events (written_by);
ALTER TABLE minuet.record_events DROP COLUMN written_by;
ALTER TABLE minuet.record_events ADD COLUMN written_by xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX record_events_newest ON minuet.record_events (written_by);
UPDATE minuet.feed_origin SET system = (SELECT system_identifier FROM pg_control_system());
