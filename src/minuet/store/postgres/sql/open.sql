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
INSERT INTO minuet.migrations
VALUES ($1, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);

-- name: notify
-- Only a hint: it need not be durable, and must not wait for a disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2);
