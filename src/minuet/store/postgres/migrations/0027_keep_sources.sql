-- The text that the document of a version was read from.

ALTER TABLE minuet.workflow_versions ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '';
