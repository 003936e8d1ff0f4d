"""A read-only copy of a server's runs, kept by the change feed."""
