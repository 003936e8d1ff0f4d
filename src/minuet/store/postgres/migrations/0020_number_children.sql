-- Which child of a node instance a run is, if that can start several.

ALTER TABLE minuet.runs ADD COLUMN parent_number integer NOT NULL DEFAULT 0;
