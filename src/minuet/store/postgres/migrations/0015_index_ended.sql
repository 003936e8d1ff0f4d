-- What a sweep deletes when runs are kept for some time only: those that ended first.

CREATE INDEX runs_ended ON minuet.runs (ended_ms) WHERE ended_ms IS NOT NULL;
