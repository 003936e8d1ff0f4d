-- The text that the document of a version was read from.

ALTER TABLE workflow_versions ADD COLUMN source TEXT NOT NULL DEFAULT '';
