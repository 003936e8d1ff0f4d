"""Moving runs from one store to another."""
