-- name: read_joins
SELECT {join} FROM joins WHERE run = :run ORDER BY node, scope;

-- name: read_arrivals
SELECT {arrival} FROM arrivals WHERE run = :run ORDER BY node, scope, source;

-- name: read_run_steps
SELECT node, scope, name, value FROM steps WHERE run = :run ORDER BY node, scope, name;

-- name: read_run_dead_letters
SELECT {dead_letter} FROM dead_letters WHERE run = :run ORDER BY node, scope, generation;

-- name: read_run_signals
SELECT {signal} FROM signals WHERE run = :run ORDER BY id;
