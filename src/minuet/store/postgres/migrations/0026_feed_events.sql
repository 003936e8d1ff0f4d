-- The change feed: which transaction has written an event, so that a reader finds those that were not
-- visible to it before. All events that are there count as written by this one. Runs are found by
-- the number that events name them with.

ALTER TABLE minuet.events
    ADD COLUMN written_by xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX events_newest ON minuet.events (written_by);
CREATE INDEX runs_by_number ON minuet.runs (id);

ALTER TABLE minuet.record_events
    ADD COLUMN written_by xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX record_events_newest ON minuet.record_events (written_by);

-- The server whose transactions these are. Where it is another one, the tables were copied there
-- from a dump, and the numbers mean nothing.
CREATE TABLE minuet.feed_origin (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    system bigint NOT NULL
);
INSERT INTO minuet.feed_origin (system) SELECT system_identifier FROM pg_control_system();
