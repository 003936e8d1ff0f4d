"""What workers report while they work: counts, metrics for Prometheus, traces."""
