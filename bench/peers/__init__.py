"""Minuet and other engines at the same work, side by side: `make bench-peers`."""
