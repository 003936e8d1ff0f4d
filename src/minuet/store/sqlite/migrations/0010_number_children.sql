-- Which child of a node instance a run is, if that can start several.

ALTER TABLE runs ADD COLUMN parent_number INTEGER NOT NULL DEFAULT 0;
