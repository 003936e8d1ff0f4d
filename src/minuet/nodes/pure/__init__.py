"""Node types that touch nothing outside: their output follows from their input alone."""
