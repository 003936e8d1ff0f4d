-- name: list_dead_letters
SELECT {dead_letter}
FROM dead_letters
WHERE tenant = :tenant AND (:status IS NULL OR status = :status)
    AND (at_ms, run, node, scope, generation)
        > (:after_ms, :after_run, :after_node, :after_scope, :after_generation)
ORDER BY at_ms, run, node, scope, generation
LIMIT :limit;

-- name: list_pending_dead_letters
SELECT {dead_letter}
FROM dead_letters
WHERE tenant = :tenant AND status = 'pending'
    AND (at_ms, run, node, scope, generation)
        > (:after_ms, :after_run, :after_node, :after_scope, :after_generation)
ORDER BY at_ms, run, node, scope, generation
LIMIT :limit;

-- name: list_dead_letters_of_run
SELECT {dead_letter}
FROM dead_letters
WHERE run = :run AND tenant = :tenant AND (:status IS NULL OR status = :status)
    AND (at_ms, run, node, scope, generation)
        > (:after_ms, :after_run, :after_node, :after_scope, :after_generation)
ORDER BY at_ms, run, node, scope, generation
LIMIT :limit;
