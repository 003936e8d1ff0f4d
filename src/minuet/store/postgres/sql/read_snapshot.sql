-- name: read_joins
SELECT {join} FROM minuet.joins WHERE run = $1 ORDER BY node, scope;

-- name: read_arrivals
SELECT {arrival} FROM minuet.arrivals WHERE run = $1 ORDER BY node, scope, source;

-- name: read_run_steps
SELECT node, scope, name, value FROM minuet.steps WHERE run = $1 ORDER BY node, scope, name;

-- name: read_run_dead_letters
SELECT {dead_letter} FROM minuet.dead_letters WHERE run = $1 ORDER BY node, scope, generation;

-- name: read_run_signals
SELECT {signal} FROM minuet.signals WHERE run = $1 ORDER BY id;
