"""Move runs from one store to another (`minuet migrate`)."""
