-- name: server
SELECT
    current_setting('server_version_num')::int AS version,
    pg_is_in_recovery() AS replica,
    current_setting('transaction_read_only') = 'on' AS read_only,
    current_setting('server_encoding') AS encoding,
    current_setting('synchronous_commit') AS durability,
    pg_backend_pid() AS process,
    current_setting('synchronous_standby_names') <> '' AS has_standby,
    current_setting('fsync') = 'on' AS syncs;

-- name: schema_lock
SELECT pg_advisory_xact_lock(hashtextextended('minuet/' || $1, 2));

-- name: schema_tables
-- Names of what is in the schema already.
SELECT c.relname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm');

-- name: applied_migrations
SELECT version, checksum FROM minuet.migrations ORDER BY version;

-- name: record_migration
INSERT INTO minuet.migrations (version, name, checksum, applied_ms)
VALUES ($1, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- name: find_function_set
SELECT 1 FROM minuet.function_sets WHERE version = $1;

-- name: record_function_set
INSERT INTO minuet.function_sets (version, created_ms)
VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- name: forget_function_sets
-- All but this one and the latest.
DELETE FROM minuet.function_sets
WHERE version NOT IN (
    SELECT version
    FROM minuet.function_sets
    ORDER BY version = $1 DESC, created_ms DESC
    LIMIT $2
)
RETURNING version;

-- name: names_of_function_set
SELECT 'FUNCTION' AS kind, p.proname AS name
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND right(p.proname, 9) = '_' || $2
UNION ALL
SELECT 'TYPE', c.relname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'c' AND right(c.relname, 9) = '_' || $2;

-- name: column_types
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped;

-- name: standby_age
-- How long ago what was replayed last was committed, in milliseconds; 0: nothing is missing that was
-- received, and more would be.
SELECT CASE
    WHEN NOT pg_is_in_recovery() THEN 0
    WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()
        AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') THEN 0
    ELSE floor(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)
END::bigint;
