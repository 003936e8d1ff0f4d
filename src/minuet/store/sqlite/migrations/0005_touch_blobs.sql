-- When a blob that belongs to no run was last put or touched; 0: before that was noted.

ALTER TABLE blobs ADD COLUMN touched_ms INTEGER NOT NULL DEFAULT 0;
