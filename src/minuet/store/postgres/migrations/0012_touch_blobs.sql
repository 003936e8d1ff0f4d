-- When a blob that belongs to no run was last put or touched; 0: before that was noted. What an
-- older version puts counts from then on.

ALTER TABLE minuet.blobs ADD COLUMN touched_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE minuet.blobs ALTER COLUMN touched_ms SET DEFAULT minuet.now_ms();
