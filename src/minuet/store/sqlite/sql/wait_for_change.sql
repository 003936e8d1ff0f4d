-- name: run_seq
SELECT seq FROM runs WHERE run = :run;
