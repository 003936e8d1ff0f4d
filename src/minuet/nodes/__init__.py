"""Node types, one file each, and handlers with the context that they see."""
