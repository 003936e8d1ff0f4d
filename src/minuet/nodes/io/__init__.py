"""Node types that reach outside: handlers, time, services and people."""
