-- name: run_seq
SELECT seq FROM minuet.runs WHERE run = $1;
