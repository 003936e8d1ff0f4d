-- name: list_dead_letters
SELECT {dead_letter}
FROM minuet.dead_letters
WHERE tenant = $1 AND ($2::text IS NULL OR status = $2)
ORDER BY at_ms, run, node, scope, generation
LIMIT $3;

-- name: list_pending_dead_letters
SELECT {dead_letter}
FROM minuet.dead_letters
WHERE tenant = $1 AND status = 'pending'
ORDER BY at_ms, run, node, scope, generation
LIMIT $2;

-- name: list_dead_letters_of_run
SELECT {dead_letter}
FROM minuet.dead_letters
WHERE tenant = $1 AND run = $4 AND ($2::text IS NULL OR status = $2)
ORDER BY at_ms, run, node, scope, generation
LIMIT $3;
