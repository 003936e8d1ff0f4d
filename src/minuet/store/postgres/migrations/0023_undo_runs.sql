-- Runs that are undone: when that happens without being asked for, how often it has happened, and what
-- a run was before. While it goes on, the run has live tokens and is not over.

ALTER TYPE minuet.run_status ADD VALUE 'COMPENSATING' BEFORE 'COMPLETED';

-- The new status is not named here: it can be used only after this transaction.
ALTER TABLE minuet.runs
    ADD COLUMN undo_on text NOT NULL DEFAULT '',
    ADD COLUMN undos integer NOT NULL DEFAULT 0,
    ADD COLUMN ends_as text NOT NULL DEFAULT '',
    DROP CONSTRAINT counter_is_zero_exactly_when_not_open,
    ADD CONSTRAINT counter_is_zero_exactly_when_not_open
        CHECK ((counter > 0) = (status > 'PENDING' AND status < 'COMPLETED'));
