-- Runs have got wider, and a run changes with almost every exchange: with half of each page free,
-- nearly all of these changes stay in the page and leave the indexes alone. For the pages that are
-- written from now on.

ALTER TABLE minuet.runs SET (fillfactor = 50);
ALTER TABLE minuet.record_runs SET (fillfactor = 50);
