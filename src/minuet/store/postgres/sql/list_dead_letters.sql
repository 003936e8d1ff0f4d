-- name: list_dead_letters
SELECT {dead_letter}
FROM minuet.dead_letters
WHERE tenant = $1 AND ($8::text IS NULL OR status = $8)
    AND (at_ms, run, node, scope, generation) > ($2, $3, $4, $5, $6)
ORDER BY at_ms, run, node, scope, generation
LIMIT $7;

-- name: list_pending_dead_letters
SELECT {dead_letter}
FROM minuet.dead_letters
WHERE tenant = $1 AND status = 'pending'
    AND (at_ms, run, node, scope, generation) > ($2, $3, $4, $5, $6)
ORDER BY at_ms, run, node, scope, generation
LIMIT $7;

-- name: list_dead_letters_of_run
SELECT {dead_letter}
FROM minuet.dead_letters
WHERE tenant = $1 AND run = $9 AND ($8::text IS NULL OR status = $8)
    AND (at_ms, run, node, scope, generation) > ($2, $3, $4, $5, $6)
ORDER BY at_ms, run, node, scope, generation
LIMIT $7;
